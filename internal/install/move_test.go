package install

import "testing"

// TestI4_ReferencesFollow: what names a namespace whose objects go to the destination names the destination.
func TestI4_ReferencesFollow(t *testing.T) {
	// Objects in from go to there; those in kept stay; in stranger there is nothing of the manifests.
	const around = "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c1, namespace: from}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c2, namespace: kept}}"
	tests := []struct{ name, kind, manifest, want string }{
		{"subjects", "ClusterRoleBinding",
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: o}, roleRef: {name: r}, subjects: [{kind: ServiceAccount, name: outside, namespace: from}, {kind: ServiceAccount, name: a, namespace: kept}, {kind: ServiceAccount, name: a, namespace: stranger}, {kind: User, name: from}, {kind: ServiceAccount, name: a}]}`,
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: o}, roleRef: {name: r}, subjects: [{kind: ServiceAccount, name: outside, namespace: there}, {kind: ServiceAccount, name: a, namespace: kept}, {kind: ServiceAccount, name: a, namespace: stranger}, {kind: User, name: from}, {kind: ServiceAccount, name: a, namespace: there}]}`},
		{"subjects of a binding that stays", "RoleBinding",
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: o, namespace: kept}, subjects: [{kind: ServiceAccount, name: a, namespace: from}]}`,
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: o, namespace: kept}, subjects: [{kind: ServiceAccount, name: a, namespace: there}]}`},
		{"namespaces as resources", "ClusterRole",
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: o}, rules: [{apiGroups: [""], resources: [namespaces, namespaces/finalizers], resourceNames: [from, kept]}, {apiGroups: [""], resources: [secrets], resourceNames: [from]}, {apiGroups: [""], resources: [namespaces]}]}`,
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: o}, rules: [{apiGroups: [""], resources: [namespaces, namespaces/finalizers], resourceNames: [there, kept]}, {apiGroups: [""], resources: [secrets], resourceNames: [from]}, {apiGroups: [""], resources: [namespaces]}]}`},
		{"webhooks", "ValidatingWebhookConfiguration",
			`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: o}, webhooks: [{clientConfig: {service: {name: s, namespace: from}}}, {clientConfig: {service: {name: s, namespace: kept}}}, {clientConfig: {url: "https://from"}}]}`,
			`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: o}, webhooks: [{clientConfig: {service: {name: s, namespace: there}}}, {clientConfig: {service: {name: s, namespace: kept}}}, {clientConfig: {url: "https://from"}}]}`},
		{"mutating webhooks, and who fills in their CA", "MutatingWebhookConfiguration",
			`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: o, annotations: {cert-manager.io/inject-ca-from: from/c}}, webhooks: [{clientConfig: {service: {name: s, namespace: from}}}]}`,
			`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: o, annotations: {cert-manager.io/inject-ca-from: there/c}}, webhooks: [{clientConfig: {service: {name: s, namespace: there}}}]}`},
		{"conversion", "CustomResourceDefinition",
			`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: o}, spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: s, namespace: from}}}}}}`,
			`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: o}, spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: s, namespace: there}}}}}}`},
		{"APIServices", "APIService",
			`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: o}, spec: {service: {name: s, namespace: from}}}`,
			`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: o}, spec: {service: {name: s, namespace: there}}}`},
		{"a kind with an unexpected shape", "APIService",
			`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: o}, spec: [from]}`,
			`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: o}, spec: [from]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := prepare(t, tt.manifest+around, options(keeping("kept")))
			sameYAML(t, tt.want, the(t, b, tt.kind, "o"))
		})
	}
}
