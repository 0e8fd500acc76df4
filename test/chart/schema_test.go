package chart

import (
	"strings"
	"testing"
)

// F5: a bad value fails the install and is named by its path.
func TestF5_BadValuesAreNamedByTheirPath(t *testing.T) {
	resource := func(entry string) string {
		return least + "offloading: {reflection: {customResources: [{version: v1, resource: configmaps}, " + entry + "]}}"
	}
	consumer := func(entry string) string {
		return "offloading: {enabled: false}\nprovider: {enabled: true, consumers: [" + entry + "]}"
	}
	const good = "subject: {kind: User, name: a}, resources: [{resources: [configmaps]}], namespaces: {patterns: [a]}"
	tests := []struct{ values, want string }{
		{"clusterID: Not_a_label", "/clusterID"},
		{"{}", "clusterID"},
		{least + "clusterId: x", "clusterId"},
		{least + "image: {digest: latest}", "/image/digest"},
		{least + "image: {repo: x}", "/image"},
		{least + "log: {level: loud}", "/log/level"},
		{least + "replicas: two", "/replicas"},
		{least + "leaderElection: {enabled: false}", "replicas"},
		{least + "uninstall: {others: Strip}", "/uninstall/others"},
		{least + "uninstall: {timeout: soon}", "/uninstall/timeout"},
		{least + "offloading: {namespaceSource: kcp}", "/offloading/namespaceSource"},
		{least + "offloading: {remoteClusters: [{name: a, access: {}}]}", "/offloading/remoteClusters/0/access"},
		{least + "offloading: {remoteClusters: [{name: a, access: {kubeconfigSecretRef: {name: a}, clusterProfileRef: {namespace: a, name: b}}}]}", "/offloading/remoteClusters/0/access"},
		{resource("{version: v1}"), "/offloading/reflection/customResources/1"},
		{resource("{version: v1, resource: Secrets}"), "/offloading/reflection/customResources/1/resource"},
		{resource("{version: v1, resource: secrets, type: Allow}"), "/offloading/reflection/customResources/1/type"},
		{resource("{version: v1, resource: secrets, workers: 0}"), "/offloading/reflection/customResources/1/workers"},
		{resource("{version: v1, resource: secrets, worker: 2}"), "worker"},
		{resource("{version: v1, resource: secrets, group: '*'}"), "/offloading/reflection/customResources/1/group"},
		{resource("{version: v1, resource: configmaps}"), "customResources[1]: makes the Crossing \"configmaps\", as offloading.reflection.customResources[0] does"},
		{resource("{version: v1, resource: secrets, direction: FromRemote, status: {return: true}}"), "customResources[1].status"},
		{resource("{version: v1, resource: secrets, direction: FromRemote, deletionPolicy: Foreground}"), "customResources[1].deletionPolicy"},
		{"offloading: {enabled: false, reflection: {customResources: [{version: v1, resource: secrets}]}}\nprovider: {enabled: true}", "offloading.reflection.customResources"},
		{"offloading: {enabled: false}", "offloading.enabled, provider.enabled, endpoints.enabled and installations.enabled"},
		{least + "endpoints: {enabled: 1}", "/endpoints/enabled"},
		{least + "endpoints: {liqo: true}", "/endpoints"},
		{least + "endpoints: {liqoNetworks: true}", "endpoints.liqoNetworks: expected false where endpoints.enabled is false"},
		{resource("{group: isthmus.dev, version: v1alpha1, resource: shadowendpointslices}") + "\nendpoints: {enabled: true}", "customResources[1].resource: shadowendpointslices cross with services by themselves"},
		{"offloading: {enabled: false}\ninstallations: {enabled: true}", "clusterID"},
		{least + "installations: {manifests: [{namespace: a, configMaps: [b]}]}", "installations.manifests: expected none"},
		{least + "installations: {enabled: true, manifests: [{namespace: a}]}", "/installations/manifests/0"},
		{least + "installations: {enabled: true, manifests: [{namespace: a, secrets: [B]}]}", "/installations/manifests/0/secrets/0"},
		{least + "installations: {enabled: true, manifests: [{namespace: a, secrets: [b]}, {namespace: a, configMaps: [b]}]}", "installations.manifests[1].namespace: a has an entry already"},
		{consumer("{" + good + "}"), "/provider/consumers/0"},
		{consumer("{name: " + strings.Repeat("a", 46) + ", " + good + "}"), "/provider/consumers/0/name"},
		{consumer("{name: a, " + strings.Replace(good, "User", "ServiceAccount", 1) + "}"), "/provider/consumers/0/subject"},
		{consumer("{name: a, " + strings.Replace(good, "configmaps", "ConfigMap", 1) + "}"), "/provider/consumers/0/resources/0/resources/0"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			_, err := render(t, tt.values)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s\n\tgot %v, expected %s", tt.values, err, tt.want)
			}
		})
	}
}
