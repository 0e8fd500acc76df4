package install

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reference is where objects of a kind name a namespace.
type reference struct {
	path  []string // of the object that holds the field; * is every item of a list
	field string
	// rewrite says how the field changes; nil: it is a namespace.
	rewrite func(holder map[string]any, field string, to func(string) string)
}

// references is the table of what follows when objects go to another namespace.
var references = map[schema.GroupKind][]reference{
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        subjects,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: subjects,
	// Roles may name namespaces as objects: owners of what a component makes, say.
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:        {{path: []string{"rules", "*"}, field: "resourceNames", rewrite: ruleNames}},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}: {{path: []string{"rules", "*"}, field: "resourceNames", rewrite: ruleNames}},

	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     {at("webhooks", "*", "clientConfig", "service", "namespace")},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   {at("webhooks", "*", "clientConfig", "service", "namespace")},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: {at("spec", "paramRef", "namespace")},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"}:   {at("spec", "paramRef", "namespace")},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:                 {at("spec", "conversion", "webhook", "clientConfig", "service", "namespace")},
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                             {at("spec", "service", "namespace")},
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                                {at("spec", "parameters", "namespace")},
	{Group: "gateway.networking.k8s.io", Kind: "GatewayClass"}:                        {at("spec", "parametersRef", "namespace")},
	{Kind: "PersistentVolume"}: {at("spec", "claimRef", "namespace")},
}

// everywhere are references that objects of any kind may have.
var everywhere = []reference{
	{path: []string{"metadata", "annotations"}, field: "cert-manager.io/inject-ca-from", rewrite: namespacedName},
	{path: []string{"metadata", "annotations"}, field: "cert-manager.io/inject-ca-from-secret", rewrite: namespacedName},
}

var subjects = []reference{{path: []string{"subjects", "*"}, field: "namespace", rewrite: subject}}

// at is a reference whose field is the last of a path.
func at(path ...string) reference {
	return reference{path: path[:len(path)-1], field: path[len(path)-1]}
}

// subject also gives a ServiceAccount without a namespace one, as its own object gets it.
func subject(holder map[string]any, field string, to func(string) string) {
	if kind, _ := holder["kind"].(string); kind == "ServiceAccount" {
		namespace, _ := holder[field].(string)
		holder[field] = to(namespace)
	}
}

// ruleNames changes the names in a rule that is about namespaces and nothing else.
func ruleNames(rule map[string]any, field string, to func(string) string) {
	names, _ := rule[field].([]any)
	resources, _ := rule["resources"].([]any)
	groups, _ := rule["apiGroups"].([]any)
	if len(resources) == 0 || !slices.Equal(groups, []any{""}) {
		return
	}
	for _, resource := range resources {
		if name, _ := resource.(string); name != "namespaces" && !strings.HasPrefix(name, "namespaces/") {
			return
		}
	}
	changed := make([]any, len(names))
	for i, name := range names {
		changed[i] = name
		if namespace, ok := name.(string); ok && namespace != "" {
			changed[i] = to(namespace)
		}
	}
	if len(changed) > 0 {
		rule[field] = changed
	}
}

// namespacedName changes the namespace of namespace/name.
func namespacedName(holder map[string]any, field string, to func(string) string) {
	value, _ := holder[field].(string)
	if namespace, name, ok := strings.Cut(value, "/"); ok {
		holder[field] = to(namespace) + "/" + name
	}
}

// move puts namespaced objects where they go, with what refers to them. A reference to a namespace in which the manifests
// have nothing stays as it is: what it names is not theirs.
func move(docs []*document, to target) ([]*document, error) {
	moved := map[string]bool{"": true}
	for _, d := range docs {
		if d.namespaced {
			moved[d.u().GetNamespace()] = true
		} else if PhaseOf(d.gvk().GroupKind()) == PhaseNamespaces {
			moved[d.u().GetName()] = true
		}
	}
	follow := func(namespace string) string {
		if !moved[namespace] {
			return namespace
		}
		return to.of(namespace)
	}
	for _, d := range docs {
		for _, reference := range slices.Concat(references[d.gvk().GroupKind()], everywhere) {
			each(d.object, reference.path, func(holder map[string]any) { reference.apply(holder, follow) })
		}
		u := d.u()
		if d.namespaced {
			u.SetNamespace(to.of(u.GetNamespace()))
		}
		if prefix := u.GetGenerateName(); prefix != "" {
			u.SetName(generatedName(prefix, contentHash(d, u.GetNamespace())))
			u.SetGenerateName("")
		}
	}
	return docs, nil
}

func (r reference) apply(holder map[string]any, to func(string) string) {
	if r.rewrite != nil {
		r.rewrite(holder, r.field, to)
	} else if namespace, ok := holder[r.field].(string); ok && namespace != "" {
		holder[r.field] = to(namespace)
	}
}
