package install

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// Source is the text of one manifest source: YAML or JSON, many documents, gzipped or not.
type Source struct {
	// Where it came from, for error messages: ConfigMap apps/knative, key 1-crds.yaml.
	Where string
	Text  []byte
}

// Options say whose the manifests are, and where they go.
type Options struct {
	// Component is what is installed, Namespace the destination namespace.
	Component, Namespace string
	// Hub is the cluster ID of the Installation's cluster; the others are the Installation's metadata.
	Hub, InstallationNamespace, InstallationName, UID string
	// Spec has keepNamespaces, patches, images, replicas and the destination namespace's metadata.
	Spec v1alpha1.InstallationSpec
	// Scoped says whether the cluster's objects of a kind are in namespaces, and whether it knows. Kinds that the manifests
	// define are looked up there first, and built-in ones are known without; so it may be nil.
	Scoped func(schema.GroupKind) (namespaced, known bool)
}

// maxObjects is how many objects an Installation may have: their names have to fit into one ConfigMap, the lock's inventory.
const maxObjects = 4000

// Prepare turns manifests into what is applied, phase by phase. What can't be understood, or would do something else than it
// seems to, is refused: the error names source, document, line and object, and says what was expected. It holds no value
// of a Secret.
func Prepare(sources []Source, o Options) (*Bundle, error) {
	docs, err := readAll(sources)
	if err != nil {
		return nil, err
	}
	scopes := scopesOf(docs, o.Scoped)
	if docs, err = checkAll(docs, scopes); err != nil {
		return nil, err
	}
	to := target{namespace: o.Namespace, keep: o.Spec.KeepNamespaces}
	if docs, err = collapse(docs, to); err != nil {
		return nil, err
	}
	if docs, err = customize(docs, o.Spec); err != nil {
		return nil, err
	}
	if docs, err = checkAll(docs, scopes); err != nil { // patches may have brought anything
		return nil, err
	}
	if docs, err = move(docs, to); err != nil {
		return nil, err
	}
	if docs, err = collapse(docs, to); err != nil { // patches may have made two objects one
		return nil, err
	}
	docs, namespaces := splitNamespaces(docs, to, o.Spec.Namespace)
	if len(docs) > maxObjects {
		return nil, fmt.Errorf("the manifests have %d objects: expected at most %d; make several Installations of them", len(docs), maxObjects)
	}
	return bundle(docs, namespaces, o)
}

// target is where namespaced objects go.
type target struct {
	namespace string
	keep      []string
}

// keeps reports whether the objects of a namespace stay there.
func (t target) keeps(namespace string) bool { return slices.Contains(t.keep, namespace) }

// of returns the namespace that the objects of one of the manifests' namespaces go to.
func (t target) of(namespace string) string {
	if t.keeps(namespace) {
		return namespace
	}
	return t.namespace
}
