package config

import "testing"

// virtual is a file with vCluster's naming, to which cases add lines of a rule for Argo CD's Applications.
const virtual = `version: v1
naming: VirtualCluster
virtualCluster: {name: shop, hostNamespace: vcluster-acme--shop}
syncResources:
- apiVersion: argoproj.io/v1alpha1
  kind: Application
  direction: toHost
`

// virtualCases are files about virtual clusters and patches, and all that is to be said about them.
var virtualCases = []struct {
	name, text string
	want       []string
}{
	// The naming.
	{"a virtual cluster", virtual, nil},
	{"all namespaces cross", virtual + "  selector: {matchNamespaces: [kube-system]}\n", nil},
	{"no virtual cluster", "version: v1\nnaming: VirtualCluster\n", []string{
		"2:9: naming: VirtualCluster needs virtualCluster: give it name and hostNamespace",
	}},
	{"no naming", "version: v1\nvirtualCluster: {name: a, hostNamespace: b}\n", []string{
		"2:17: virtualCluster: belongs to naming: VirtualCluster: set that too, or remove it",
	}},
	{"another naming", "version: v1\nnaming: SameName\nvirtualCluster: {name: a, hostNamespace: b}\n", []string{
		"3:17: virtualCluster: belongs to naming: VirtualCluster: set that too, or remove it",
	}},
	{"an unknown naming", "version: v1\nnaming: virtualcluster\n", []string{
		`2:9: naming: unknown value "virtualcluster", did you mean "VirtualCluster"? Expected SameName or VirtualCluster`,
	}},
	{"half a virtual cluster", "version: v1\nnaming: VirtualCluster\nvirtualCluster: {name: a}\n", []string{
		"3:17: virtualCluster.hostNamespace: is missing: expected a string like vcluster-my-vcluster",
	}},
	{"the other half", "version: v1\nnaming: VirtualCluster\nvirtualCluster: {hostNamespace: a, hostNamespce: b}\n", []string{
		"3:17: virtualCluster.name: is missing: expected a string like my-vcluster",
		`3:36: virtualCluster.hostNamespce: unknown field, did you mean "hostNamespace"?`,
	}},
	{"names that are none", "version: v1\nnaming: VirtualCluster\nvirtualCluster: {name: a.b, hostNamespace: A}\n", []string{
		`3:24: virtualCluster.name: "a.b" is no name of a virtual cluster: must not contain dots`,
		`3:44: virtualCluster.hostNamespace: "A" is no namespace name: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character`,
	}},
	{"the host's own namespace", "version: v1\nnaming: VirtualCluster\nvirtualCluster: {name: a, hostNamespace: kube-system}\n", []string{
		"3:42: virtualCluster.hostNamespace: kube-system can't be written to: namespaces that start with kube- belong to the host cluster; choose another",
	}},
	{"namespaces have no counterparts", "version: v1\nnaming: VirtualCluster\nvirtualCluster: {name: a}\nnamespaces: {a: b}\ncreateNamespaces: true\n", []string{
		"3:17: virtualCluster.hostNamespace: is missing: expected a string like vcluster-my-vcluster",
		"4:13: namespaces: contradicts naming: VirtualCluster, under which all namespaces land in one: remove one of them",
		"5:19: createNamespaces: contradicts naming: VirtualCluster: host namespaces are the host's own; remove it",
	}},
	// Shared host namespaces.
	{"a shared namespace", virtual + "  hostNamespace: argocd\n", nil},
	{"a shared namespace without a virtual cluster", widget + "  hostNamespace: argocd\n", []string{
		"6:18: syncResources[0].hostNamespace: belongs to naming: VirtualCluster: map namespaces with namespaces instead",
	}},
	{"shared namespaces that are none", virtual + "  hostNamespace: a.b\n" + `- {apiVersion: v1, kind: Secret, direction: toHost, hostNamespace: kube-public}
- {apiVersion: v1, kind: ConfigMap, direction: toHost, hostNamespace: vcluster-acme--shop}
- {apiVersion: v1, kind: Service, direction: toHost, hostNamespace: ''}
- {apiVersion: v1, kind: Pod, direction: toHost, hostNamespace: 1}
`, []string{
		`8:18: syncResources[0].hostNamespace: "a.b" is no namespace name: must not contain dots`,
		"9:68: syncResources[1].hostNamespace: kube-public can't be written to: namespaces that start with kube- belong to the host cluster; choose another",
		"10:71: syncResources[2].hostNamespace: is the virtual cluster's own host namespace, where twins go anyway: remove it",
		"11:69: syncResources[3].hostNamespace: is an empty string: give it a value, or remove the key",
		`12:65: syncResources[4].hostNamespace: is the number 1: expected a string like argocd; write "1" in quotes`,
	}},
	// The tenant's project.
	{"a project", virtual + "  enforceTenantProject: true\n- {apiVersion: v1, kind: Secret, direction: toHost, enforceTenantProject: true}\n", nil},
	{"a project of what has none", virtual + `- {apiVersion: v1, kind: ConfigMap, direction: toHost, enforceTenantProject: true}
- {apiVersion: argoproj.io/v2, kind: Application, direction: toHost, name: a, enforceTenantProject: true}
- {apiVersion: example.io/v1, kind: Application, direction: toHost, name: b, enforceTenantProject: true}
`, []string{
		"8:78: syncResources[1].enforceTenantProject: ConfigMap names no project: remove it",
		"9:16: syncResources[2].apiVersion: Application is argoproj.io/v1alpha1 in syncResources[0]: a kind crosses in one version; use the same in both",
		"9:101: syncResources[2].enforceTenantProject: Application names no project: remove it",
		"10:100: syncResources[3].enforceTenantProject: Application names no project: remove it",
	}},
	{"a project without a virtual cluster", "version: v1\nsyncResources:\n- {apiVersion: v1, kind: Secret, direction: toHost, enforceTenantProject: true}\n", []string{
		"3:75: syncResources[0].enforceTenantProject: belongs to naming: VirtualCluster: remove it",
	}},
	// Directions.
	{"imports", virtual + `- {apiVersion: v1, kind: Secret, direction: fromHost, targetNamespace: platform, virtualControlledBy: true}
- {apiVersion: storage.k8s.io/v1, kind: StorageClass, direction: fromHost, mode: mirror, clusterScoped: true}
- {apiVersion: example.io/v1, kind: Zone, direction: toHost, clusterScoped: true}
- {apiVersion: v1, kind: ConfigMap, direction: toHost, mode: mirror, statusSync: true}
`, nil},
	{"what does not go with an import", virtual + `- apiVersion: v1
  kind: Secret
  direction: fromHost
  statusSync: true
  clusterScoped: true
  targetNamespace: kube-public
  patches: [{path: data.a, type: rewriteName}]
  hostNamespace: argocd
  enforceTenantProject: true
`, []string{
		"11:15: syncResources[1].statusSync: status never goes from the local cluster to the remote one: remove it; mode: mirror brings the remote object's status",
		"12:18: syncResources[1].clusterScoped: cluster-scoped kinds are imported only in mode: mirror",
		"13:20: syncResources[1].targetNamespace: kube-public can't be written to: namespaces that start with kube- belong to the local cluster; choose another",
		"14:12: syncResources[1].patches: references in imports stay as they are: remove it",
		"15:18: syncResources[1].hostNamespace: belongs to direction: toHost: remove it",
		"16:25: syncResources[1].enforceTenantProject: belongs to direction: toHost: remove it",
	}},
	{"what goes with an import only", widget + "  targetNamespace: a\n  virtualControlledBy: true\n  clusterScoped: true\n", []string{
		"6:20: syncResources[0].targetNamespace: belongs to direction: fromHost: remove it",
		"7:24: syncResources[0].virtualControlledBy: belongs to direction: fromHost: remove it",
		"8:18: syncResources[0].clusterScoped: cluster-scoped kinds go to the remote cluster only with naming: VirtualCluster, which tells them apart there",
	}},
	{"imports with shared counterparts", "version: v1\nnamespaces: {a: x, b: x, c: y, d: y, e: z}\nsyncResources:\n- {apiVersion: v1, kind: Secret, direction: fromHost}\n", []string{
		"4:45: syncResources[0].direction: a and b share the counterpart x in namespaces, so where its objects go can't be told: give each its own",
		"4:45: syncResources[0].direction: c and d share the counterpart y in namespaces, so where its objects go can't be told: give each its own",
	}},
	// Patches.
	{"patches", virtual + `  patches:
  - {path: 'spec.source.helm.valuesFrom[*].name', type: rewriteName}
  - {path: spec.destination, type: rewriteRef}
  - {path: spec.destination.namespace, type: none}
  - {path: 'metadata.annotations["example.io/secret"]', type: rewriteName}
  - {path: 'status.resources[*].namespace', type: rewriteNamespace}
`, nil},
	{"paths that are none", virtual + `  patches:
  - {path: spec..a, type: rewriteName}
  - {path: 'spec.a[', type: rewriteName}
  - {path: '', type: rewriteName}
  - {path: 'spec.{{ a }}', type: rewriteName}
`, []string{
		`9:12: syncResources[0].patches[0].path: path "spec..a": expected a field at character 6`,
		`10:12: syncResources[0].patches[1].path: path "spec.a[": expected [*], [0] or ["key"] at character 7`,
		"11:12: syncResources[0].patches[2].path: is an empty string: give it a value, or remove the key",
		`12:12: syncResources[0].patches[3].path: path "spec.{{ a }}": expected ".", "[" or the end (write other keys as ["key"], and every item of a list as [*]) at character 8`,
	}},
	{"paths that can't be patched", virtual + `  patches:
  - {path: kind, type: rewriteName}
  - {path: metadata.name, type: rewriteName}
  - {path: 'metadata.labels["a"]', type: rewriteName}
  - {path: 'metadata.annotations["vcluster.loft.sh/object-name"]', type: rewriteName}
  - {path: 'metadata.annotations["a"]', type: rewriteRef}
  - {path: status.a, type: rewriteHostRef}
`, []string{
		"9:12: syncResources[0].patches[0].path: kind can't be patched: a twin is of its source's kind",
		`10:12: syncResources[0].patches[1].path: metadata.name can't be patched: of metadata only an annotation can, as metadata.annotations["key"]`,
		`11:12: syncResources[0].patches[2].path: metadata.labels.a can't be patched: of metadata only an annotation can, as metadata.annotations["key"]`,
		`12:12: syncResources[0].patches[3].path: metadata.annotations["vcluster.loft.sh/object-name"] can't be patched: the annotation vcluster.loft.sh/object-name never crosses from a source`,
		`13:12: syncResources[0].patches[4].path: metadata.annotations.a: rewriteRef does not apply to an annotation, which is a string: expected rewriteName, rewriteNamespace or none`,
		`14:12: syncResources[0].patches[5].path: status.a: rewriteHostRef does not apply to a status, which only ever returns: expected rewriteName, rewriteNamespace, rewriteRef or none`,
	}},
	{"types that are none", virtual + `  patches:
  - {path: spec.a, type: rewritename}
  - {path: spec.b, type: rewriteSecretName}
  - {path: spec.c, type: template}
  - {path: spec.d}
  - {path: spec.e, type: none, value: x}
`, []string{
		`9:26: syncResources[0].patches[0].type: unknown value "rewritename", did you mean "rewriteName"? Expected one of rewriteName, rewriteNamespace, rewriteRef, rewriteHostRef, rewriteLabelSelector or none`,
		`10:26: syncResources[0].patches[1].type: unknown value "rewriteSecretName", expected one of rewriteName, rewriteNamespace, rewriteRef, rewriteHostRef, rewriteLabelSelector or none`,
		`11:26: syncResources[0].patches[2].type: unknown value "template", expected one of rewriteName, rewriteNamespace, rewriteRef, rewriteHostRef, rewriteLabelSelector or none`,
		"12:5: syncResources[0].patches[3].type: is missing: expected one of rewriteName, rewriteNamespace, rewriteRef, rewriteHostRef, rewriteLabelSelector or none",
		"13:32: syncResources[0].patches[4].value: unknown field, expected path or type",
	}},
	{"patches against each other", virtual + `  patches:
  - {path: spec.a, type: rewriteName}
  - {path: spec.a, type: rewriteName}
  - {path: 'spec.b[*]', type: rewriteRef}
  - {path: 'spec.b[*]', type: none}
  - {path: spec.c, type: rewriteLabelSelector}
  - {path: spec.c.matchLabels.a, type: rewriteName}
`, []string{
		`8:3: syncResources[0].patches: "spec.a: rewriteName" is there twice: remove one`,
		`8:3: syncResources[0].patches: "spec.b[*]: rewriteRef" and "spec.b[*]: none" contradict each other: keep one of them`,
		`8:3: syncResources[0].patches: "spec.c.matchLabels.a: rewriteName" is inside of "spec.c: rewriteLabelSelector", which takes all that is there: remove one`,
	}},
	{"no patches", virtual + "  patches: []\n", []string{
		"8:12: syncResources[0].patches: is empty: give it at least 1, or remove the key",
	}},
}

func TestF5_VirtualClustersAndPatches(t *testing.T) {
	for _, tt := range virtualCases {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == nil {
				parse(t, tt.text)
				return
			}
			expectErrors(t, tt.text, tt.want)
		})
	}
}

// The tenant is told only from a namespace of exactly this layout; from any other none is guessed.
func TestF5_TenantOfAHostNamespace(t *testing.T) {
	for namespace, want := range map[string]string{
		"vcluster-acme--shop":         "acme",
		"vcluster-acme-eu--shop":      "acme-eu",
		"vcluster-acme--shop--canary": "", // or is it acme--shop's?
		"vcluster-acme---shop":        "",
		"vcluster-acme":               "",
		"vcluster-acme-shop":          "",
		"vcluster---shop":             "",
		"vcluster-----shop":           "",
		"acme--shop":                  "",
		"my-vcluster-acme--shop":      "",
		"vcluster":                    "",
	} {
		text := "version: v1\nnaming: VirtualCluster\nvirtualCluster: {name: shop, hostNamespace: " + namespace + "}\n" +
			"syncResources:\n- {apiVersion: v1, kind: Secret, direction: toHost, enforceTenantProject: true}\n"
		if want == "" {
			expectErrors(t, text, []string{
				`5:75: syncResources[0].enforceTenantProject: can't tell the tenant from virtualCluster.hostNamespace "` + namespace + `": expected vcluster-<tenant>--<cluster>`,
			})
		} else if have := parse(t, text).Rules[0].TenantProject; have != want {
			t.Errorf("the tenant of %s is %q, expected %q", namespace, have, want)
		}
	}
}
