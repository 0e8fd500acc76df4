package install

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// maxFaults is how many faults an error tells of at once.
const maxFaults = 5

// checkAll checks all objects, and takes out of them what is not ours to set.
func checkAll(docs []*document, scopes scopes) ([]*document, error) {
	var faults []error
	for _, d := range docs {
		if err := d.check(scopes); err != nil {
			faults = append(faults, err)
		}
		if len(faults) == maxFaults {
			break
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	for _, d := range docs {
		leaveOut(d)
	}
	return docs, nil
}

// check refuses what can't be applied, or is not what it seems.
func (d *document) check(scopes scopes) error {
	if err := d.checkType(); err != nil {
		return err
	}
	metadata, ok := d.object["metadata"].(map[string]any)
	if !ok {
		return d.fault("metadata: expected an object with a name, found %s", typeName(d.object["metadata"]))
	}
	if err := d.checkMetadata(metadata); err != nil {
		return err
	}
	gvk := d.gvk()
	if status, ok := d.object["status"].(map[string]any); ok && len(status) > 0 && len(d.object) == 4 {
		return d.fault("it has a status and nothing else: expected what is to be installed, a status comes from the cluster")
	}
	namespaced, known := scopes.of(gvk)
	switch namespace := d.u().GetNamespace(); {
	case known:
		d.namespaced = namespaced
	case namespace != "":
		d.namespaced = true
	default:
		return d.fault("the cluster does not serve %s, and the manifests don't define it: expected a CustomResourceDefinition among them, or metadata.namespace if its objects are in namespaces", gvk.GroupKind())
	}
	return nil
}

func (d *document) checkType() error {
	for _, key := range []string{"apiVersion", "kind"} {
		if value, ok := d.object[key].(string); !ok || value == "" {
			return d.fault("%s: expected a string, found %s", key, typeName(d.object[key]))
		}
	}
	if _, err := schema.ParseGroupVersion(d.u().GetAPIVersion()); err != nil {
		return d.fault("apiVersion: expected group/version, or v1")
	}
	return nil
}

func (d *document) checkMetadata(metadata map[string]any) error {
	for _, key := range []string{"name", "generateName", "namespace"} {
		if _, ok := metadata[key].(string); metadata[key] != nil && !ok {
			return d.fault("metadata.%s: expected a string, found %s; put it in quotes", key, typeName(metadata[key]))
		}
	}
	for _, key := range []string{"labels", "annotations"} {
		if err := checkStrings(metadata[key]); err != nil {
			return d.fault("metadata.%s%v", key, err)
		}
	}
	u := d.u()
	name := u.GetName()
	if name == "" {
		name = u.GetGenerateName()
	}
	switch problems := content.IsPathSegmentName(name); {
	case name == "":
		return d.fault("metadata.name: expected a name")
	case len(problems) > 0 || len(name) > validation.DNS1123SubdomainMaxLength:
		return d.fault("metadata.name: expected a name of at most %d characters without / and %%", validation.DNS1123SubdomainMaxLength)
	case u.GetNamespace() != "" && len(validation.IsDNS1123Label(u.GetNamespace())) > 0:
		return d.fault("metadata.namespace %q: expected the name of a namespace", u.GetNamespace())
	case metadata["ownerReferences"] != nil:
		return d.fault("metadata.ownerReferences: expected none: they name objects of one cluster by UID; leave them out")
	}
	_, annotated := u.GetAnnotations()[v1alpha1.InstallationAnnotation]
	if _, labelled := u.GetLabels()[v1alpha1.InstalledByLabel]; annotated || labelled {
		return d.fault("it has the annotation %s or the label %s, by which installed objects are known: leave them out", v1alpha1.InstallationAnnotation, v1alpha1.InstalledByLabel)
	}
	return nil
}

// checkStrings refuses labels and annotations that are no strings. They may be missing.
func checkStrings(value any) error {
	fields, ok := value.(map[string]any)
	if value != nil && !ok {
		return fmt.Errorf(": expected an object, found %s", typeName(value))
	}
	for key, v := range fields {
		if _, ok := v.(string); !ok {
			return fmt.Errorf("[%q]: expected a string, found %s; put it in quotes", key, typeName(v))
		}
	}
	return nil
}

func (d *document) u() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: d.object}
}

func (d *document) gvk() schema.GroupVersionKind { return d.u().GroupVersionKind() }

// name is the object for error messages: Deployment knative-serving/activator.
func (d *document) name() string {
	u := d.u()
	name := u.GetName()
	if name == "" && u.GetGenerateName() != "" {
		name = u.GetGenerateName() + "…"
	}
	if u.GetNamespace() != "" {
		name = u.GetNamespace() + "/" + name
	}
	kind := u.GetKind()
	if kind == "" {
		kind = "an object without kind"
	}
	return strings.TrimSpace(kind + " " + name)
}
