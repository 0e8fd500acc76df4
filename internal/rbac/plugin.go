package rbac

import (
	"bytes"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Who the plugin is, in a template of vCluster's chart: the service account of the release, and roles of its own where
// tenants meet.
const (
	pluginAccount   = "vc-{{ .Release.Name }}"
	pluginNamespace = "{{ .Release.Namespace }}"
	pluginRole      = "isthmus:{{ .Release.Namespace }}:{{ .Release.Name }}"
)

// PluginValues returns what a vcluster.yaml needs so that the plugin of that name, under the key in (plugin or plugins), may
// do on the host what the rules need: rules for the Role and the ClusterRole that vCluster's chart makes, and manifests
// with Roles in other namespaces, which the chart renders as a template. Home must be set.
func PluginValues(o Options, in, name string) (map[string]any, error) {
	grants, err := grantsFor(o)
	if err != nil {
		return nil, err
	}
	policies := grants.policies()
	rules := map[string]any{}
	for key, namespace := range map[string]string{"role": o.Home, "clusterRole": ""} {
		if extra := policies[namespace]; len(extra) > 0 {
			rules[key] = map[string]any{"extraRules": plain(extra)}
		}
	}
	values := map[string]any{in: map[string]any{name: map[string]any{"rbac": rules}}}
	o.Name, o.Subject = pluginRole, Subject{Namespace: pluginNamespace, ServiceAccount: pluginAccount}
	r := renderer{Options: o}
	var elsewhere []runtime.Object
	for _, namespace := range slices.Sorted(maps.Keys(policies)) {
		if namespace != o.Home && namespace != "" {
			elsewhere = append(elsewhere, r.role(namespace, policies[namespace]), r.roleBinding(namespace))
		}
	}
	if len(elsewhere) > 0 {
		var manifests bytes.Buffer
		if err := Print(&manifests, nil, elsewhere); err != nil {
			return nil, err
		}
		values["experimental"] = map[string]any{"deploy": map[string]any{"host": map[string]any{"manifestsTemplate": manifests.String()}}}
	}
	return values, nil
}

// plain returns policy rules as a vcluster.yaml has them.
func plain(rules []rbacv1.PolicyRule) (out []any) {
	for _, rule := range rules {
		texts := map[string]any{"apiGroups": rule.APIGroups, "resources": rule.Resources, "verbs": rule.Verbs}
		if len(rule.ResourceNames) > 0 {
			texts["resourceNames"] = rule.ResourceNames
		}
		out = append(out, texts)
	}
	return out
}
