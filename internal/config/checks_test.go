package config

import "testing"

// checkCases are files whose types are right and whose meaning is not.
var checkCases = []struct {
	name, text string
	want       []string
}{
	{"kinds", "version: v1\nsyncResources:\n- {apiVersion: a/b/c, kind: Two Words, direction: toHost}\n- {apiVersion: Apps/v1, kind: A, direction: toHost}\n- {apiVersion: /v1, kind: A, direction: toHost}\n", []string{
		`3:16: syncResources[0].apiVersion: "a/b/c" is no API version: expected version or group/version, like v1 or apps/v1`,
		`3:29: syncResources[0].kind: "Two Words" is no kind: expected a name as in manifests, like ConfigMap`,
		`4:16: syncResources[1].apiVersion: "Apps/v1" is no API version: expected version or group/version, like v1 or apps/v1`,
		`5:16: syncResources[2].apiVersion: "/v1" is no API version: expected version or group/version, like v1 or apps/v1`,
	}},
	{"finalizers that twins carry", widget + "  deletionPolicy: Foreground\n  carryFinalizers: [a/b, a/b, 'a b', isthmus.dev/x, foregroundDeletion, orphan, resources-finalizer.argocd.argoproj.io]\n", []string{
		`7:26: syncResources[0].carryFinalizers[1]: "a/b" is listed twice: remove one`,
		`7:31: syncResources[0].carryFinalizers[2]: "a b" is no finalizer: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character`,
		`7:38: syncResources[0].carryFinalizers[3]: isthmus.dev/x is a copying system's own: remove it`,
		`7:53: syncResources[0].carryFinalizers[4]: foregroundDeletion belongs to the garbage collector of each side: remove it`,
		`7:73: syncResources[0].carryFinalizers[5]: orphan belongs to the garbage collector of each side: remove it`,
	}},
	{"imports hold nothing", "version: v1\nsyncResources:\n- {apiVersion: v1, kind: A, direction: fromHost, deletionPolicy: Foreground, carryFinalizers: [a/b]}\n- {apiVersion: v1, kind: B, direction: fromHost, deletionPolicy: Background}\n", []string{
		`3:66: syncResources[0].deletionPolicy: an import does not hold up the deletion of the remote object: remove it`,
		`3:95: syncResources[0].carryFinalizers: finalizers of remote objects are for their own side, and imports do not hold up their deletion: remove it`,
	}},
	{"names", widget + "  name: a b\n- apiVersion: v1\n  kind: A234567890123456789012345678901234567890123456789012345678\n  direction: toHost\n", []string{
		`6:9: syncResources[0].name: "a b" is no name: expected at most 63 letters, digits, -, _ and ., with a letter or digit first and last`,
		`8:9: syncResources[1].kind: the rule's name would be A234567890123456789012345678901234567890123456789012345678-toHost, which is longer than 63 characters: set name`,
	}},
	{"whose status", widget + "  statusFrom: a.b\n- {apiVersion: v1, kind: A, direction: toHost, statusFrom: b}\n- {apiVersion: v1, kind: B, direction: toHost, statusSync: true, statusFrom: ''}\n- {apiVersion: v1, kind: C, direction: toHost, statusSync: true, statusFrom: c}\n", []string{
		`6:15: syncResources[0].statusFrom: "a.b" is no cluster ID: expected a DNS label, the --remote-id of the remote whose status returns`,
		`7:60: syncResources[1].statusFrom: says whose status returns, but none does: set statusSync: true, or remove it`,
		`8:78: syncResources[2].statusFrom: is an empty string: give it a value, or remove the key`,
	}},
	{"one name twice", widget + "  selector: {matchLabels: {a: b}}\n- {apiVersion: example.io/v1, kind: Widget, direction: toHost}\n- {apiVersion: v1, kind: Secret, direction: toHost, name: Widget-toHost}\n", []string{
		`7:3: syncResources[1].name: "Widget-toHost" is also the name of syncResources[0]: set name to tell them apart`,
		`8:59: syncResources[2].name: "Widget-toHost" is also the name of syncResources[0]: set name to tell them apart`,
	}},
	{"one selection twice", widget + "  name: one\n  selector: {matchLabels: {a: b, c: d}, matchNamespaces: [x, y]}\n" +
		"- apiVersion: example.io/v1\n  kind: Widget\n  direction: toHost\n  name: two\n  policy: DenyList\n  selector: {matchLabels: {c: d}, matchExpressions: [{key: a, operator: In, values: [b]}], matchNamespaces: [y, x]}\n" +
		"- {apiVersion: example.io/v1, kind: Widget, direction: toHost, name: three, selector: {matchLabels: {a: b, c: d}, matchNamespaces: [x, y, z]}}\n", nil},
	{"the same selection twice", widget + "  name: one\n  selector: {matchLabels: {a: b, c: d}, matchNamespaces: [x, y]}\n" +
		"- apiVersion: example.io/v1\n  kind: Widget\n  direction: toHost\n  name: two\n  policy: DenyList\n  selector: {matchLabels: {c: d, a: b}, matchNamespaces: [y, x]}\n", []string{
		`8:3: syncResources[1]: "two" selects the same objects as "one" in syncResources[0], so neither would take them: give them different selectors or namespaces, or remove one`,
	}},
	{"two versions", widget + "- {apiVersion: example.io/v2, kind: Widget, direction: toHost, name: b, selector: {matchLabels: {a: b}}}\n", []string{
		`6:16: syncResources[1].apiVersion: Widget is example.io/v1 in syncResources[0]: a kind crosses in one version; use the same in both`,
	}},
	{"namespace pairs", "version: v1\nnamespaces:\n  a.b: c\n  d: E\n  f: kube-public\n  g: \"\"\n  kube-system: h\n", []string{
		"3:3: namespaces[a.b]: is no namespace name: must not contain dots",
		"4:6: namespaces[d]: \"E\" is no namespace name: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
		"5:6: namespaces[f]: kube-public can't be written to: namespaces that start with kube- belong to the remote cluster; choose another",
		"6:6: namespaces[g]: \"\" is no namespace name: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
	}},
	{"globs", widget + "  selector:\n    matchNamespaces: ['', 'Team', 'a,b', '[a', '[!a]', '-a', 'a-[b-c]*']\n    excludeNamespaces: ['a.b']\n", []string{
		"7:23: syncResources[0].selector.matchNamespaces[0]: is empty: expected a namespace, or a glob like team-*",
		"7:27: syncResources[0].selector.matchNamespaces[1]: \"Team\" can match no namespace, for 'T' occurs in no namespace's name: expected a namespace, or a glob of lower-case letters, digits, -, *, ? and [a-z]",
		"7:35: syncResources[0].selector.matchNamespaces[2]: \"a,b\" can match no namespace, for ',' occurs in no namespace's name: expected a namespace, or a glob of lower-case letters, digits, -, *, ? and [a-z]",
		"7:42: syncResources[0].selector.matchNamespaces[3]: \"[a\" is no glob: close the [ and give it something to match, as in team-[a-z]",
		"7:48: syncResources[0].selector.matchNamespaces[4]: \"[!a]\" can match no namespace, for '!' occurs in no namespace's name: expected a namespace, or a glob of lower-case letters, digits, -, *, ? and [a-z]",
		"7:56: syncResources[0].selector.matchNamespaces[5]: \"-a\" is no namespace name: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
		"8:25: syncResources[0].selector.excludeNamespaces[0]: \"a.b\" can match no namespace, for '.' occurs in no namespace's name: expected a namespace, or a glob of lower-case letters, digits, -, *, ? and [a-z]",
	}},
	{"included and excluded", "version: v1\nglobalFilters:\n  include: [{namespace: a}, {namespace: b, resources: [X]}, {resources: [Widget]}]\n  exclude: [{namespace: a}, {namespace: b, resources: [Y]}, {namespace: c}, {}]\n" +
		"syncResources:\n- apiVersion: v1\n  kind: Widget\n  direction: toHost\n  selector: {matchNamespaces: [c, d, e], excludeNamespaces: [d]}\n", []string{
		"4:25: globalFilters.exclude[0].namespace: a is also included by globalFilters.include[0]: remove one of them",
		"4:77: globalFilters.exclude[3]: is empty: expected namespace, resources, or both",
		`9:32: syncResources[0].selector.matchNamespaces[0]: "c" is excluded by globalFilters.exclude: remove it from one of them`,
		`9:35: syncResources[0].selector.matchNamespaces[1]: "d" is also in excludeNamespaces: remove it from one of them`,
	}},
	{"nothing left", widget + "  selector: {matchNamespaces: [team-a], excludeNamespaces: [team-*]}\n", []string{
		"3:3: syncResources[0]: the filters exclude every namespace that they include, so nothing would cross: include more, or exclude less",
	}},
	{"no namespace with a counterpart", "version: v1\nnamespaces: {a: b}\nsyncResources:\n- {apiVersion: v1, kind: Secret, direction: toHost, selector: {matchNamespaces: [c-*]}}\n", []string{
		"4:3: syncResources[0]: none of the namespaces that the filters admit is in namespaces, so nothing would cross: add it there, or admit one that is",
	}},
	{"system namespaces", widget + "  selector: {matchNamespaces: [a, kube-system]}\n", []string{
		"6:35: syncResources[0].selector.matchNamespaces[1]: namespaces that start with kube- belong to the remote cluster: give kube-system another counterpart in namespaces",
	}},
	{"system namespaces elsewhere", "version: v1\nnamespaces: {kube-system: b}\nsyncResources:\n- {apiVersion: v1, kind: Secret, direction: toHost, selector: {matchNamespaces: [kube-system]}}\n", nil},
	{"a kind that the global filter leaves out", "version: v1\nglobalFilters: {include: [{resources: [Secret]}]}\nsyncResources:\n- {apiVersion: v1, kind: Secret, direction: toHost}\n- {apiVersion: v1, kind: ConfigMap, direction: toHost}\n", []string{
		"5:3: syncResources[1]: globalFilters.include does not name ConfigMap, so nothing would cross: name it there, or set selector.matchNamespaces",
	}},
	{"resources", "version: v1\nglobalFilters: {exclude: [{resources: [secrets, widget, example.io/v2/Widget, a/b/c/D, Pod, example.org/v1/Widget]}]}\nsyncResources:\n- {apiVersion: v1, kind: Secret, direction: toHost}\n- {apiVersion: example.io/v1, kind: Widget, direction: toHost}\n", []string{
		`2:40: globalFilters.exclude[0].resources[0]: unknown kind "secrets", did you mean "Secret"?`,
		`2:49: globalFilters.exclude[0].resources[1]: unknown kind "widget", did you mean "Widget"?`,
		`2:57: globalFilters.exclude[0].resources[2]: Widget has version example.io/v1 in syncResources: write example.io/v1/Widget, or Widget for all versions`,
		`2:79: globalFilters.exclude[0].resources[3]: "a/b/c/D" is no kind: expected Kind or group/version/Kind, like Secret or apps/v1/Deployment`,
	}},
	{"labels", "version: v1\nglobalExtraLabels:\n  a b: c\n  d: e f\n  isthmus.dev/x: y\nsyncResources:\n- {apiVersion: v1, kind: A, direction: toHost, extraLabels: {kupe.cloud/tenant: x}}\n", []string{
		`3:3: globalExtraLabels["a b"]: is no label key: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character`,
		`4:6: globalExtraLabels[d]: "e f" is no label value: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character`,
		"5:3: globalExtraLabels[isthmus.dev/x]: keys under isthmus.dev/ are reserved: use another prefix",
		"7:62: syncResources[0].extraLabels[kupe.cloud/tenant]: keys under kupe.cloud/ are reserved: use another prefix",
	}},
	{"selectors", widget + "  selector:\n    matchLabels: {a: b, c: '*'}\n    matchExpressions:\n    - {key: a, operator: NotIn, values: [b]}\n    - {key: a, operator: DoesNotExist}\n    - {key: x, operator: In}\n    - {key: x, operator: Exists, values: [y]}\n    - {key: x, operator: in, values: [y]}\n    - {key: x/y/z, operator: Exists}\n    - {key: x, operator: In, values: ['a b']}\n    - {operator: Exists}\n", []string{
		`7:28: syncResources[0].selector.matchLabels[c]: "*" is no label value: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character`,
		`9:7: syncResources[0].selector.matchExpressions[0]: contradicts matchLabels, which wants a: "b", so no object could match: remove one of them`,
		`10:7: syncResources[0].selector.matchExpressions[1]: contradicts matchLabels, which wants a: "b", so no object could match: remove one of them`,
		`11:7: syncResources[0].selector.matchExpressions[2]: operator In needs values: add at least one`,
		`12:42: syncResources[0].selector.matchExpressions[3].values: operator Exists takes no values: remove them`,
		`13:26: syncResources[0].selector.matchExpressions[4].operator: unknown value "in", did you mean "In"? Expected one of In, NotIn, Exists or DoesNotExist`,
		`14:13: syncResources[0].selector.matchExpressions[5].key: "x/y/z" is no label key: a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character`,
		`15:39: syncResources[0].selector.matchExpressions[6].values[0]: "a b" is no label value: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character`,
		`16:7: syncResources[0].selector.matchExpressions[7].key: is missing: expected a string like example.io/tier`,
	}},
	{"host-owned fields", widget + "  extraLabels: {x: y}\n  hostOwnedFields:\n  - ''\n  - spec\n  - kind\n  - status.a\n  - metadata\n  - metadata.labels\n  - metadata.labels[*]\n  - metadata.finalizers\n  - metadata.labels[\"isthmus.dev/origin\"]\n  - metadata.labels[\"x\"]\n  - spec.a[0]\n  - spec..b\n", []string{
		"8:5: syncResources[0].hostOwnedFields[0]: empty path: expected a field, like spec.replicas",
		"9:5: syncResources[0].hostOwnedFields[1]: spec can't be host-owned as a whole: name the fields in it, like spec.replicas",
		"10:5: syncResources[0].hostOwnedFields[2]: kind can't be host-owned: its owner is fixed; remove it",
		"11:5: syncResources[0].hostOwnedFields[3]: status can't be host-owned: its owner is fixed; remove it",
		`12:5: syncResources[0].hostOwnedFields[4]: metadata can't be host-owned: of metadata only a label or an annotation can, as metadata.labels["key"] or metadata.annotations["key"]`,
		`13:5: syncResources[0].hostOwnedFields[5]: metadata.labels can't be host-owned: of metadata only a label or an annotation can, as metadata.labels["key"] or metadata.annotations["key"]`,
		`14:5: syncResources[0].hostOwnedFields[6]: metadata.labels[*] can't be host-owned: of metadata only a label or an annotation can, as metadata.labels["key"] or metadata.annotations["key"]`,
		`15:5: syncResources[0].hostOwnedFields[7]: metadata.finalizers can't be host-owned: of metadata only a label or an annotation can, as metadata.labels["key"] or metadata.annotations["key"]`,
		`16:5: syncResources[0].hostOwnedFields[8]: keys under isthmus.dev/ are reserved: remove it`,
		`17:5: syncResources[0].hostOwnedFields[9]: contradicts extraLabels or globalExtraLabels, which set this label on every twin: keep one of them`,
		`18:5: syncResources[0].hostOwnedFields[10]: spec.a[0] can't be host-owned: items of a list have owners by their keys, not by their position; write [*]`,
		`19:5: syncResources[0].hostOwnedFields[11]: path "spec..b": expected a field at character 6`,
	}},
	{"dropped and kept keys", widget + "  dropKeys: [a b, x.io/*, '*', a]\n  keepKeys: [isthmus.dev/rule, offloading.liqo.io/*, kubectl.kubernetes.io/last-applied-configuration, x.io/*, x.io/y, X_/*]\n", []string{
		`6:14: syncResources[0].dropKeys[0]: "a b" is no label or annotation key: expected a key, like example.io/team, or a prefix, like example.io/*`,
		`6:27: syncResources[0].dropKeys[2]: "*" is no label or annotation key: expected a key, like example.io/team, or a prefix, like example.io/*`,
		`7:14: syncResources[0].keepKeys[0]: keys under isthmus.dev/ never cross: remove it`,
		`7:32: syncResources[0].keepKeys[1]: keys under offloading.liqo.io/ never cross: remove it`,
		`7:54: syncResources[0].keepKeys[2]: kubectl.kubernetes.io/last-applied-configuration never crosses: remove it`,
		`7:104: syncResources[0].keepKeys[3]: contradicts syncResources[0].dropKeys[1], which names the same key: keep one of them`,
		`7:120: syncResources[0].keepKeys[5]: "X_/*" is no prefix of keys: expected a domain before /*, like example.io/*`,
	}},
}

func TestF5_ContradictorySettings(t *testing.T) {
	for _, tt := range checkCases {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == nil {
				parse(t, tt.text)
				return
			}
			expectErrors(t, tt.text, tt.want)
		})
	}
}
