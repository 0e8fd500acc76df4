package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/internal/rbac"
)

// givenFiles is what was found in the files of isthmus rbac --installations.
type givenFiles struct {
	installations []v1alpha1.Installation
	// sources are ConfigMaps and Secrets by kind, namespace and name; several where the files have several of one name, as
	// before and after an upgrade.
	sources map[sourceKey][]*unstructured.Unstructured
	// defined are the kinds of CustomResourceDefinitions.
	defined map[schema.GroupKind]rbac.Resource
	// live reads what the files don't have; nil: nothing is read.
	live func(key sourceKey) (*unstructured.Unstructured, error)
}

type sourceKey struct{ kind, namespace, name string }

func (k sourceKey) String() string { return k.kind + " " + k.namespace + "/" + k.name }

// printInstallations prints the roles for Installations.
func (f *controllerFlags) printInstallations(cmd *cobra.Command, kubeconfig string, o rbac.Options) error {
	given, err := f.readGiven(cmd, kubeconfig)
	if err != nil {
		return err
	}
	if err := f.choose(given, o.Side); err != nil {
		return err
	}
	targets, err := given.targets()
	if err != nil {
		return err
	}
	var guessed []string
	objects, err := rbac.Installations(rbac.InstallationOptions{
		Side: o.Side, Targets: targets, Instance: o.Instance, Name: o.Name, Namespace: o.Namespace, LeaderElect: o.LeaderElect, Subject: o.Subject,
		Resources: func(gvk schema.GroupVersionKind) (rbac.Resource, error) {
			if resource, ok := given.defined[gvk.GroupKind()]; ok {
				return resource, nil
			}
			resource := rbac.Guess(gvk)
			guessed = append(guessed, fmt.Sprintf("%s (%s)", resource.Name, gvk.GroupKind()))
			return resource, nil
		},
	})
	if err != nil {
		return fmt.Errorf("making roles for %s: %w", strings.Join(f.installations, ", "), err)
	}
	return rbac.Print(cmd.OutOrStdout(), comments(o.Side, len(given.installations), targets, objects, guessed), objects)
}

// readGiven reads all files.
func (f *controllerFlags) readGiven(cmd *cobra.Command, kubeconfig string) (*givenFiles, error) {
	given := &givenFiles{sources: map[sourceKey][]*unstructured.Unstructured{}, defined: map[schema.GroupKind]rbac.Resource{}}
	for _, path := range f.installations {
		objects, err := readObjects(cmd.InOrStdin(), path)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if err := given.add(object); err != nil {
				return nil, fmt.Errorf("reading %s: %s %s/%s: %w", path, object.GetKind(), object.GetNamespace(), object.GetName(), err)
			}
		}
	}
	if kubeconfig == "" {
		return given, nil
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster of %s: %w", kubeconfig, err)
	}
	given.live = func(key sourceKey) (*unstructured.Unstructured, error) {
		resource := rbac.Guess(schema.GroupVersionKind{Version: "v1", Kind: key.kind}).Name
		return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(key.namespace).Get(cmd.Context(), key.name, metav1.GetOptions{})
	}
	return given, nil
}

// add takes in an object of a file. Kinds that say nothing about Installations are left out.
func (g *givenFiles) add(object *unstructured.Unstructured) error {
	switch object.GroupVersionKind() {
	case v1alpha1.GroupVersion.WithKind("Installation"):
		var i v1alpha1.Installation
		if err := convert(object, &i); err != nil {
			return err
		}
		if i.Namespace == "" || i.Spec.Component == "" || len(i.Spec.Manifests) == 0 {
			return errors.New("expected metadata.namespace, spec.component and spec.manifests")
		}
		g.installations = append(g.installations, i)
	case schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}:
		key := sourceKey{object.GetKind(), object.GetNamespace(), object.GetName()}
		g.sources[key] = append(g.sources[key], object)
	case schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}:
		if kind, resource, ok := rbac.ResourceOf(object); ok {
			g.defined[kind] = resource
		}
	}
	return nil
}

// choose leaves the Installations that the roles are for: on a member, those of one ClusterProfile.
func (f *controllerFlags) choose(g *givenFiles, side rbac.Side) error {
	if side == rbac.Local {
		if len(g.installations) == 0 {
			return fmt.Errorf("%s: expected at least one Installation", strings.Join(f.installations, ", "))
		}
		return nil
	}
	var profiles []string
	g.installations = slices.DeleteFunc(g.installations, func(i v1alpha1.Installation) bool {
		if i.Spec.Destination == nil {
			return true
		}
		ref := i.Spec.Destination.ClusterProfileRef
		profile := ref.Namespace + "/" + ref.Name
		if !slices.Contains(profiles, profile) {
			profiles = append(profiles, profile)
		}
		return f.clusterProfile != "" && profile != f.clusterProfile
	})
	slices.Sort(profiles)
	switch {
	case f.clusterProfile == "" && len(profiles) > 1:
		return fmt.Errorf("the Installations go to several clusters: expected --clusterprofile, one of %s", strings.Join(profiles, ", "))
	case len(g.installations) == 0:
		return fmt.Errorf("%s: no Installation goes to the member%s: expected one with spec.destination", strings.Join(f.installations, ", "), strings.TrimSuffix(" "+f.clusterProfile, " "))
	}
	return nil
}

// targets prepares each Installation, once for each state of its manifests that the files have.
func (g *givenFiles) targets() (targets []rbac.InstallationTarget, err error) {
	for n := range g.installations {
		i := &g.installations[n]
		states := 1
		for state := 0; state < states; state++ {
			sources, err := install.Gather(i, func(kind, name string) (*unstructured.Unstructured, error) {
				key := sourceKey{kind, i.Namespace, name}
				found := g.sources[key]
				states = max(states, len(found))
				switch {
				case len(found) > 0:
					return found[min(state, len(found)-1)], nil
				case g.live == nil:
					return nil, fmt.Errorf("%s is not in the files: expected it there, with its namespace, or --kubeconfig of the hub to read it", key)
				}
				object, err := g.live(key)
				if err != nil {
					return nil, fmt.Errorf("reading %s: %w", key, err)
				}
				return object, nil
			})
			var bundle *install.Bundle
			if err == nil {
				bundle, err = install.Prepare(sources, g.options(i))
			}
			if err != nil {
				return nil, fmt.Errorf("the Installation %s/%s: %w", i.Namespace, i.Name, err)
			}
			targets = append(targets, rbac.InstallationTarget{Installation: i, Bundle: bundle})
		}
	}
	return targets, nil
}

// options are those that the controller would prepare the manifests with, but for its own names, which give no rights.
func (g *givenFiles) options(i *v1alpha1.Installation) install.Options {
	namespace := i.Namespace
	if i.Spec.Destination != nil {
		namespace = i.Spec.Destination.Namespace
	}
	return install.Options{
		Component: i.Spec.Component, Namespace: namespace, Hub: "hub", InstallationNamespace: i.Namespace, InstallationName: i.Name,
		UID: cmp.Or(string(i.UID), "unknown"), Spec: i.Spec,
		Scoped: func(kind schema.GroupKind) (namespaced, known bool) {
			resource, known := g.defined[kind]
			return !resource.ClusterScoped, known
		},
	}
}

// comments say what the roles are for, and how wide they are.
func comments(side rbac.Side, n int, targets []rbac.InstallationTarget, objects []runtime.Object, guessed []string) []string {
	where := "the hub"
	if side == rbac.Remote {
		where = "a member"
	}
	comments := []string{fmt.Sprintf("What isthmus controller --controllers=installation needs on %s for %s.", where, count(n, "Installation"))}
	if namespaces := rbac.RoleNamespaces(objects); len(namespaces) > 0 {
		comments = append(comments, "Roles go to these namespaces, which must exist: "+strings.Join(namespaces, ", ")+".")
	}
	if side == rbac.Remote && slices.ContainsFunc(targets, rbac.InstallationTarget.CreatesNamespaces) {
		comments = append(comments, "Rights to what is in a namespace that Isthmus may create hold in all namespaces, for the names in the manifests: a Role can't be there",
			"before its namespace. Create it, and write deletionPolicy: {namespace: Keep}, to get Roles.")
	}
	return append(comments, guesses(guessed)...)
}
