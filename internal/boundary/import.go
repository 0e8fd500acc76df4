package boundary

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The annotations by which a remote object says where its copy belongs, under each prefix that counts.
const (
	targetNamespace = "target-namespace"
	targetName      = "target-name"
)

var targetPrefixes = []string{Prefix, "kupe.cloud/"}

// controlledByImport is the value of LabelVClusterControlledBy on imports, by which vCluster's own syncers leave them
// alone.
const controlledByImport = "generic-sync"

// Import says where copies of remote objects belong on the local side (direction FromRemote): in the namespace and under
// the name that the object's annotations give, else in the rule's target namespace, else in the namespace's counterpart.
type Import struct {
	// From are the remote namespaces whose objects come; nil: those that have a counterpart.
	From []string
	// Pairs are the local counterparts of remote namespaces; nil: those of the same names.
	Pairs NamespacePairs
	// Confined: copies go into the counterparts alone, under their own names, whatever an object's annotations say.
	Confined bool
}

var _ Naming = Import{}

// Admits implements Naming.
func (n Import) Admits(_ *Rule, namespace string) bool {
	switch {
	case namespace == "":
		return true
	case n.From != nil:
		return slices.Contains(n.From, namespace)
	}
	_, ok := n.Pairs.Remote(namespace)
	return ok
}

// Sources implements Naming.
func (n Import) Sources() []string {
	if n.From != nil {
		return n.From
	}
	return n.Pairs.locals()
}

// Place implements Naming.
func (n Import) Place(rule *Rule, source *unstructured.Unstructured) (types.NamespacedName, error) {
	place := nameOf(source)
	if place.Namespace == "" {
		return place, nil // a mirror keeps its name (S6)
	}
	if n.Confined {
		place.Namespace, _ = n.Pairs.Remote(place.Namespace)
		return place, nil
	}
	annotations := source.GetAnnotations()
	namespace, err := targetOf(annotations, targetNamespace)
	if err != nil {
		return types.NamespacedName{}, err
	}
	name, err := targetOf(annotations, targetName)
	if err != nil {
		return types.NamespacedName{}, err
	}
	switch {
	case namespace != "":
		place.Namespace = namespace
	case rule.TargetNamespace != "":
		place.Namespace = rule.TargetNamespace
	case n.From != nil:
		return types.NamespacedName{}, fmt.Errorf("it has no target: annotate it %s%s, or set targetNamespace in rule %s", Prefix, targetNamespace, rule.Name)
	default:
		place.Namespace, _ = n.Pairs.Remote(place.Namespace)
	}
	if faults := validation.IsDNS1123Label(place.Namespace); len(faults) > 0 {
		return types.NamespacedName{}, fmt.Errorf("target namespace %q: %s", place.Namespace, faults[0])
	}
	if strings.HasPrefix(place.Namespace, "kube-") {
		return types.NamespacedName{}, fmt.Errorf("target namespace %q: namespaces that start with kube- are not written to", place.Namespace)
	}
	if name != "" { // the source's own name suits the kind, as a server took it
		if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
			return types.NamespacedName{}, fmt.Errorf("target name %q: %s", name, faults[0])
		}
		place.Name = name
	}
	return place, nil
}

// targetOf reads one of the target annotations; empty: it is not set.
func targetOf(annotations map[string]string, name string) (string, error) {
	found := ""
	for _, prefix := range targetPrefixes {
		value, ok := annotations[prefix+name]
		switch {
		case !ok:
		case value == "":
			return "", fmt.Errorf("annotation %s is empty", prefix+name)
		case found != "" && found != value:
			return "", fmt.Errorf("annotations %s%s and %s%s contradict each other", targetPrefixes[0], name, prefix, name)
		default:
			found = value
		}
	}
	return found, nil
}

// Targets implements Naming: annotations may name any namespace, unless they have no say.
func (n Import) Targets(_ *Rule, namespace string) []string {
	if !n.Confined {
		return nil
	}
	if target, ok := n.Pairs.Remote(namespace); ok {
		return []string{target}
	}
	return []string{}
}

// Translator implements Naming. References in imports stay as they are.
func (Import) Translator(*Rule, Resolver) Translator { return SameNames{} }

// Mark implements Naming.
func (Import) Mark(rule *Rule, _ *unstructured.Unstructured, _ types.NamespacedName, labels, _ map[string]any) {
	if rule.VirtualControlledBy {
		labels[LabelVClusterControlledBy] = controlledByImport
	}
}
