package boundary

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// X3: what a field is called tells the kind of a reference that states none, and nothing that is only called alike.
func TestX3_WhatTheNameOfAFieldTells(t *testing.T) {
	for line, want := range map[string]string{
		"spec.secretName rewriteName":                                   "Secret",
		"spec.tls[*].secretName rewriteName":                            "Secret",
		"spec.tokenSecret rewriteName":                                  "Secret",
		"spec.secretNames[*] rewriteName":                               "Secret",
		"spec.imagePullSecrets[*] rewriteRef":                           "Secret",
		"spec.imagePullSecrets[*].name rewriteName":                     "Secret",
		"spec.secretRef rewriteRef":                                     "Secret",
		"spec.secretRef.name rewriteName":                               "Secret",
		"spec.dns.apiTokenSecretRef.name rewriteName":                   "Secret",
		"spec.env[*].valueFrom.secretKeyRef rewriteRef":                 "Secret",
		"spec.env[*].valueFrom.secretKeyRef.name rewriteName":           "Secret",
		"spec.configMapName rewriteName":                                "ConfigMap",
		"spec.configMapRef rewriteRef":                                  "ConfigMap",
		"spec.envFrom[*].configMapRef.name rewriteName":                 "ConfigMap",
		"spec.valueFrom.configMapKeyRef rewriteRef":                     "ConfigMap",
		"spec.volumes[*].configMap.name rewriteName":                    "ConfigMap",
		"spec.dashboardConfigMapName rewriteName":                       "ConfigMap",
		"spec.externalSecretName rewriteName":                           "",
		"spec.sealedSecretRef rewriteRef":                               "",
		"spec.secretStoreRef rewriteRef":                                "",
		"spec.secretKey rewriteName":                                    "",
		"spec.nonsecret rewriteName":                                    "",
		"spec.issuerRef rewriteRef":                                     "",
		"spec.name rewriteName":                                         "",
		"spec.secretRef rewriteHostRef":                                 "",
		"spec.secretRef none":                                           "",
		"spec.secretName rewriteNamespace":                              "",
		`metadata.annotations["example.io/secretName"] rewriteName`:     "",
		`spec.more["example.io/secretName"].secretRef.name rewriteName`: "Secret",
	} {
		if have := patches(t, line)[0].impliedKind(); have != want {
			t.Errorf("%s: %q, expected %q", line, have, want)
		}
	}
}

// X3: where only the name of a field tells the kind, the place is the same, and what is told counts on it.
func TestX3_ReferencesWhoseFieldsTellTheirKind(t *testing.T) {
	const (
		noRule   = "refers to what no rule carries, and vCluster itself only where a pod uses it: "
		secret   = "{apiVersion: v1, kind: Secret, direction: toHost}"
		annotate = `, or annotate the object vcluster.loft.sh/force-sync: "true"`
	)
	secrets := schema.GroupKind{Kind: "Secret"}
	crosses := func(yes bool) Resolver {
		return func(o Object) Resolution {
			if o.Kind != secrets || o.Name != (types.NamespacedName{Namespace: "shop", Name: "db"}) {
				t.Errorf("it asks for %v", o)
			}
			return Resolution{Known: true, Crosses: yes, Place: types.NamespacedName{Namespace: "elsewhere", Name: "other"}}
		}
	}
	for _, test := range []struct {
		name    string
		patch   string
		any     string // what the patch is about
		rules   Kinds
		copied  bool
		resolve Resolver
		told    []string // of an Event; none: there is none
		absent  bool
	}{
		{"a name", "any.secretName rewriteName", "{secretName: db}", nil, false, nil,
			[]string{noRule + "any.secretName refers to Secret shop/db, which becomes Secret ", "add a rule like " + secret + annotate, "told by the name of the field"}, false},
		{"a name in an object", "any.secretRef.name rewriteName", "{secretRef: {name: db, key: a}}", nil, false, nil,
			[]string{"any.secretRef.name refers to Secret shop/db", secret}, false},
		{"an object", "any.env[*].valueFrom.secretKeyRef rewriteRef", "{env: [{valueFrom: {secretKeyRef: {name: db, key: a}}}]}", nil, false, nil,
			[]string{"any.env[0].valueFrom.secretKeyRef refers to Secret shop/db", secret}, false},
		{"both kinds", "any.sources[*].configMapRef rewriteRef; any.secretName rewriteName", "{secretName: db, sources: [{configMapRef: {name: a}}]}", nil, false, nil,
			[]string{"refers to ConfigMap shop/a", "refers to Secret shop/db", secret + " and {apiVersion: v1, kind: ConfigMap, direction: toHost}"}, false},
		{"the object states another kind", "any.secretRef rewriteRef", "{secretRef: {apiVersion: v1, kind: ConfigMap, name: db}}", nil, false, nil,
			[]string{"refers to ConfigMap shop/db", "kind: ConfigMap, direction"}, false},
		{"the object states another group", "any.secretRef rewriteRef", "{secretRef: {apiVersion: example.io/v1, name: db}}", nil, false, nil, nil, false},
		{"no name tells", "any.ref rewriteRef; any.token rewriteName", "{ref: {name: db}, token: db}", nil, false, nil, nil, false},
		{"a rule carries it", "any.secretName rewriteName", "{secretName: db}", Kinds{secrets: {}}, false, crosses(true), nil, false},
		{"a rule for the kind does not", "any.secretName rewriteName", "{secretName: db}", Kinds{secrets: {}}, false, crosses(false), nil, true},
		{"a rule in another namespace carries it", "any.secretName rewriteName", "{secretName: db}", Kinds{secrets: {Shared: "platform"}}, false, crosses(true), nil, false},
		{"the host hands it out", "any.secretName rewriteName", "{secretName: db}", nil, true, nil, nil, false},
		{"the host hands some out", "any.secretName rewriteName", "{secretName: db}", Kinds{secrets: {}}, true, crosses(false), nil, false},
		{"a mirror", "any.secretName rewriteName", "{secretName: db}", Kinds{secrets: {Mirrored: true}}, false, crosses(false), nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, func(in *Input) {
				in.Naming = VirtualClusterNaming{Cluster: acme, Kinds: test.rules, Copied: map[schema.GroupKind]bool{secrets: test.copied}}
				in.Resolve = test.resolve
				in.Rules[0].Patches = compile(t, strings.Split(test.patch, "; ")...)
				in.Source.Object["any"] = value(t, test.any)
				in.Place = types.NamespacedName{Namespace: acme.HostNamespace, Name: acme.HostName("shop", "blue")}
			})
			d := Decide(s.Input)
			if d.Action != Create {
				t.Errorf("%s: %q", d.Action, d.Reasons)
			}
			var told []string
			for _, event := range d.Events {
				if event.Warning {
					told = append(told, event.Message)
				}
			}
			for _, text := range test.told {
				if !strings.Contains(strings.Join(told, "\n"), text) {
					t.Errorf("%q is not told: %q", text, told)
				}
			}
			if len(test.told) == 0 && len(told) > 0 {
				t.Errorf("told: %q", told)
			}
			if absent := d.Absent != ""; absent != test.absent || absent && !strings.Contains(d.Absent, "any.secretName refers to Secret shop/db") {
				t.Errorf("absent: %q", d.Absent)
			}
			if strings.HasPrefix(test.patch, "any.secretName ") {
				if diff := cmp.Diff(acme.HostName("shop", "db"), asObject(d.Body["any"])["secretName"]); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

// Rules start again when what they tell of references counts on other rules, and only then.
func TestX3_RulesThatReferByKind(t *testing.T) {
	for line, want := range map[string]bool{
		"spec.ref rewriteRef": true, "spec.list[*].secretName rewriteName": true, "spec.list[0].secretName rewriteName": true,
		"spec.token rewriteName": false, "spec.secretName none": false, "spec.secretRef rewriteHostRef": false,
	} {
		if have := (&Rule{Patches: compile(t, line)}).RefersByKind(); have != want {
			t.Errorf("%s: %t, expected %t", line, have, want)
		}
	}
}
