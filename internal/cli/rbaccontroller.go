package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/rbac"
)

// controllerInstance is the instance of isthmus controller where nothing else is said.
const controllerInstance = "controller"

// sideProvider is the third side of isthmus rbac: a cluster that gives namespaces to consumers.
const sideProvider = "provider"

// controllerFlags are the flags of isthmus rbac about controller mode.
type controllerFlags struct {
	crossings       string
	consumers       string
	installations   []string
	clusterProfile  string
	clusterProfiles bool
	liqo            bool
	endpoints       bool
	liqoNetworks    bool
}

func (f *controllerFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.crossings, "crossings", "", "print what isthmus controller needs for the Crossings among these manifests; - reads standard input")
	flags.StringVar(&f.consumers, "consumers", "", "print what isthmus controller --controllers=tenancy needs for the Consumers among these manifests; - reads standard input")
	flags.StringSliceVar(&f.installations, "installations", nil, "print what isthmus controller --controllers=installation needs for the Installations in these files, which have their ConfigMaps and Secrets as well, or --kubeconfig of the hub reads those; - reads standard input")
	flags.StringVar(&f.clusterProfile, "clusterprofile", "", "with --installations and --side remote, the member that the roles are for, as NAMESPACE/NAME of its ClusterProfile, if the Installations go to several")
	flags.BoolVar(&f.clusterProfiles, "clusterprofiles", false, "with --crossings, add the right to read ClusterProfiles")
	flags.BoolVar(&f.liqo, "liqo", false, "with --crossings, add the right to read Liqo's NamespaceMaps, for --namespace-source=liqo")
	flags.BoolVar(&f.endpoints, "endpoints", false, "with --crossings or --consumers, add the rights that --controllers=endpoints needs; with --side provider alone, print these")
	flags.BoolVar(&f.liqoNetworks, "liqo-networks", false, "with --endpoints, add the right to read what Liqo says of networks, for --liqo-networks of isthmus controller")
}

// asked reports whether the roles are those of controller mode.
func (f *controllerFlags) asked() bool {
	return f.crossings != "" || f.consumers != "" || f.endpoints || len(f.installations) > 0
}

func (f *controllerFlags) check(side string) error {
	switch {
	case f.crossings == "" && (f.clusterProfiles || f.liqo):
		return errors.New("--clusterprofiles and --liqo are about --crossings: expected it, too")
	case f.liqoNetworks && !f.endpoints:
		return errors.New("--liqo-networks is about --endpoints: expected it, too")
	case f.endpoints && f.crossings == "" && side != sideProvider:
		return fmt.Errorf("--endpoints and --side %q: expected --crossings, or --side provider", side)
	case f.endpoints && f.consumers == "" && side == sideProvider && f.crossings == "":
	case f.clusterProfile != "" && (len(f.installations) == 0 || side != string(rbac.Remote)):
		return errors.New("--clusterprofile is about --installations and --side remote: expected them, too")
	case (f.consumers != "") != (side == sideProvider):
		return fmt.Errorf("--side %q: --consumers goes with --side provider, and with it alone", side)
	}
	return nil
}

// print prints the roles. The options are those of all roles; the rest is in the flags.
func (f *controllerFlags) print(cmd *cobra.Command, kubeconfig string, o rbac.Options) error {
	switch {
	case len(f.installations) > 0:
		return f.printInstallations(cmd, kubeconfig, o)
	case f.consumers != "":
		return f.printProvider(cmd, o)
	case f.crossings == "":
		return rbac.Print(cmd.OutOrStdout(), []string{"What isthmus controller --controllers=endpoints needs on a cluster that runs no other controller of Isthmus."},
			rbac.Endpoints(rbac.ProviderOptions{Instance: o.Instance, Name: o.Name, Namespace: o.Namespace, LeaderElect: o.LeaderElect, LiqoNetworks: f.liqoNetworks, Subject: o.Subject}))
	}
	crossings, err := read[v1alpha1.Crossing](cmd.InOrStdin(), f.crossings, "Crossing")
	if err != nil {
		return err
	}
	objects, err := rbac.Controller(rbac.ControllerOptions{
		Crossings: crossings, Side: o.Side, Instance: o.Instance, Name: o.Name, Namespace: o.Namespace, LeaderElect: o.LeaderElect,
		ClusterProfiles: f.clusterProfiles, Liqo: f.liqo, Endpoints: f.endpoints, LiqoNetworks: f.liqoNetworks, Subject: o.Subject,
	})
	if err != nil {
		return fmt.Errorf("making roles for %s: %w", f.crossings, err)
	}
	comments := []string{fmt.Sprintf("What isthmus controller needs on the %s side for %s.", o.Side, count(len(crossings), "Crossing"))}
	if o.Side == rbac.Remote {
		comments = append(comments, "It is for a cluster that gives no namespaces on request, and holds in all namespaces: the controller makes its own there.")
	}
	return rbac.Print(cmd.OutOrStdout(), comments, objects)
}

// printProvider prints the roles of a provider.
func (f *controllerFlags) printProvider(cmd *cobra.Command, o rbac.Options) error {
	consumers, err := read[v1alpha1.Consumer](cmd.InOrStdin(), f.consumers, "Consumer")
	if err != nil {
		return err
	}
	var allowed []v1alpha1.AllowedResources
	for _, c := range consumers {
		allowed = append(allowed, c.Spec.Resources...)
	}
	objects := rbac.Provider(rbac.ProviderOptions{
		Resources: allowed, Instance: o.Instance, Name: o.Name, Namespace: o.Namespace, LeaderElect: o.LeaderElect, Endpoints: f.endpoints, LiqoNetworks: f.liqoNetworks, Subject: o.Subject,
	})
	comments := []string{fmt.Sprintf("What isthmus controller needs on a provider for %s: it hands out only what it holds.", count(len(consumers), "Consumer"))}
	return rbac.Print(cmd.OutOrStdout(), comments, objects)
}

// read returns the objects of a kind of ours among manifests; other kinds are left out. The path - is standard input.
func read[T any](stdin io.Reader, path, kind string) (found []T, err error) {
	objects, err := readObjects(stdin, path)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GroupVersionKind() != v1alpha1.GroupVersion.WithKind(kind) {
			continue
		}
		var one T
		if err := convert(object, &one); err != nil {
			return nil, fmt.Errorf("reading %s: %s %q: %w", path, kind, object.GetName(), err)
		}
		found = append(found, one)
	}
	return found, nil
}

// readObjects returns all objects of a file of manifests, those in lists too. The path - is standard input.
func readObjects(stdin io.Reader, path string) (objects []*unstructured.Unstructured, err error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		defer file.Close()
		in = file
	}
	documents := yaml.NewYAMLOrJSONDecoder(in, 4096)
	for n := 1; ; n++ {
		var document map[string]any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s, document %d: %w", path, n, err)
		}
		objects = appendObjects(objects, document)
	}
}

// appendObjects appends the objects in a document.
func appendObjects(objects []*unstructured.Unstructured, document map[string]any) []*unstructured.Unstructured {
	if len(document) == 0 {
		return objects
	}
	items, list := document["items"].([]any)
	if !list {
		return append(objects, &unstructured.Unstructured{Object: document})
	}
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			objects = appendObjects(objects, fields)
		}
	}
	return objects
}

// convert reads an object into its Go type.
func convert(object *unstructured.Unstructured, into any) error {
	text, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
