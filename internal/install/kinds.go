package install

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"isthmus.dev/isthmus/internal/boundary"
)

// PhaseName says what the objects of a phase have in common.
type PhaseName string

// The phases, in the order in which they are applied.
const (
	PhaseNamespaces PhaseName = "Namespaces"
	PhaseCRDs       PhaseName = "CRDs"   // established before the next phase
	PhaseRBAC       PhaseName = "RBAC"   // with the accounts
	PhaseConfig     PhaseName = "Config" // what workloads find when they start
	PhaseWorkloads  PhaseName = "Workloads"
	PhaseCustom     PhaseName = "Custom"   // custom resources, of the manifests' own kinds and of others'
	PhaseWebhooks   PhaseName = "Webhooks" // admission and aggregated APIs: once what they call is available
)

// phaseNames are the phases in order.
var phaseNames = []PhaseName{PhaseNamespaces, PhaseCRDs, PhaseRBAC, PhaseConfig, PhaseWorkloads, PhaseCustom, PhaseWebhooks}

// kindPhases says which phase kinds are of. A kind that is not here is of its group's phase.
var kindPhases = map[schema.GroupKind]PhaseName{
	{Kind: "Namespace"}:             PhaseNamespaces,
	{Kind: "ServiceAccount"}:        PhaseRBAC,
	{Kind: "Pod"}:                   PhaseWorkloads,
	{Kind: "ReplicationController"}: PhaseWorkloads,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: PhaseCRDs,
	{Group: "apps", Kind: "ControllerRevision"}:                       PhaseConfig,
}

// groupPhases says which phase the kinds of API groups are of. The other built-in groups are of PhaseConfig, custom
// resources of PhaseCustom.
var groupPhases = map[string]PhaseName{
	"apps":                         PhaseWorkloads,
	"batch":                        PhaseWorkloads,
	"autoscaling":                  PhaseWorkloads,
	"rbac.authorization.k8s.io":    PhaseRBAC,
	"admissionregistration.k8s.io": PhaseWebhooks,
	"apiregistration.k8s.io":       PhaseWebhooks,
}

// kindRanks orders the kinds of one phase; those that are not here come first, in the manifests' order.
var kindRanks = map[schema.GroupKind]int{
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        1, // what they bind is there
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: 1,
}

// PhaseOf returns the phase that a kind is of.
func PhaseOf(kind schema.GroupKind) PhaseName {
	if phase, ok := kindPhases[kind]; ok {
		return phase
	}
	if phase, ok := groupPhases[kind.Group]; ok {
		return phase
	}
	if boundary.BuiltinGroup(kind.Group) {
		return PhaseConfig
	}
	return PhaseCustom
}

// scopes tells the kinds whose objects are in namespaces from those that are cluster-scoped.
type scopes struct {
	defined map[schema.GroupKind]bool // by the manifests; true: in namespaces
	served  func(schema.GroupKind) (namespaced, known bool)
}

// scopesOf reads the CustomResourceDefinitions among objects. What is wrong with them, check or the server says.
func scopesOf(docs []*document, served func(schema.GroupKind) (namespaced, known bool)) scopes {
	s := scopes{defined: map[schema.GroupKind]bool{}, served: served}
	for _, d := range docs {
		if kind, _ := d.object["kind"].(string); kind != "CustomResourceDefinition" {
			continue
		}
		spec, _ := d.object["spec"].(map[string]any)
		names, _ := spec["names"].(map[string]any)
		group, _ := spec["group"].(string)
		kind, _ := names["kind"].(string)
		if scope, ok := spec["scope"].(string); ok && kind != "" {
			s.defined[schema.GroupKind{Group: group, Kind: kind}] = scope == "Namespaced"
		}
	}
	return s
}

func (s scopes) of(gvk schema.GroupVersionKind) (namespaced, known bool) {
	if namespaced, known := s.defined[gvk.GroupKind()]; known {
		return namespaced, true
	}
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	if namespaced, known := openapi.IsNamespaceScoped(kyaml.TypeMeta{APIVersion: apiVersion, Kind: kind}); known { // built in
		return namespaced, true
	}
	if s.served != nil {
		return s.served(gvk.GroupKind())
	}
	return false, false
}
