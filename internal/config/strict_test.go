package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// widget is a rule to which cases add lines.
const widget = `version: v1
syncResources:
- apiVersion: example.io/v1
  kind: Widget
  direction: toHost
`

// strictCases are files and all that is to be said about them.
var strictCases = []struct {
	name, text string
	want       []string
}{
	// The text.
	{"empty", "", []string{"1:1: the file is empty: expected at least `version: v1`"}},
	{"only comments", "# nothing\n---\n", []string{"1:1: the file is empty: expected at least `version: v1`"}},
	{"two documents", "version: v1\n---\nversion: v1\n", []string{"3:1: a second YAML document starts here: expected one; put all rules under one syncResources"}},
	{"tab", "version: v1\nsyncResources:\n\t- a\n", []string{"3:2: not valid YAML: found character that cannot start any token: indent with spaces, not tabs"}},
	{"indentation", "version: v1\nsyncResources:\n- kind: A\n  mode: sync\n direction: x\n", []string{"5:2: not valid YAML: did not find expected key: check the indentation"}},
	{"colon", "version: v1\nlog_level: a: b\n", []string{"2:1: not valid YAML: mapping values are not allowed in this context: check the indentation, and put a value that holds \": \" in quotes"}},
	{"open list", "version: v1\nsyncResources: [a, b\nnamespaces: {}\n", []string{"2:1: not valid YAML: did not find expected ',' or ']': close the list with ]"}},
	{"open quote", "version: v1\nlog_level: \"info\nx: 1\n", []string{"2:1: not valid YAML: found unexpected end of stream: close the quote"}},
	{"unknown alias", "version: v1\nnamespaces: {a: b}\nlog_level: *level\n", []string{"3:1: not valid YAML: unknown anchor 'level' referenced: define it before it is used, or put the value in quotes"}},
	{"control character", "version: v1\nlog_level: in\x00fo\n", []string{"2:14: the control character U+0000 can't stand in YAML: remove it"}},
	{"not UTF-8", "version: v1\n# \xe9\n", []string{"2:3: the text is not UTF-8: save it as UTF-8"}},
	{"huge", "version: v1\n#" + strings.Repeat("x", 1<<20) + "\n", []string{"1:1: the file has 1048590 bytes: expected at most 1048576"}},
	{"deep", strings.Repeat("[", 20_000), []string{"1:1: not valid YAML: exceeded max depth of 10000"}},
	{"template", "version: v1\nnamespaces: {a: {{ .Values.b }}}\n", []string{"2:17: namespaces[a]: is an object: expected a string"}},
	// The tree.
	{"a list", "- version: v1\n", []string{"1:1: is a list: expected an object (key: value)"}},
	{"a string", "version\n", []string{`1:1: is the string "version": expected an object (key: value)`}},
	{"nothing required", "{}\n", []string{"1:1: version: is missing: expected v1"}},
	{"unknown keys", "version: v1\nlog-level: info\nSyncResources: []\nfoo: 1\nselector: {}\nkinds: []\n", []string{
		`2:1: log-level: unknown field, did you mean "log_level"?`,
		`3:1: SyncResources: unknown field, did you mean "syncResources"?`,
		`4:1: foo: unknown field, expected one of version, log_level, events_enabled, max_concurrent_reconciles, naming, virtualCluster, disable_event_filtering, globalFilters, namespaces, createNamespaces, massDeletion, globalExtraLabels or syncResources`,
		`5:1: selector: unknown field here, it belongs in syncResources[]`,
		`6:1: kinds: unknown field, expected one of version, log_level, events_enabled, max_concurrent_reconciles, naming, virtualCluster, disable_event_filtering, globalFilters, namespaces, createNamespaces, massDeletion, globalExtraLabels or syncResources`,
	}},
	{"unknown key of a rule", widget + "  selectr:\n    matchLabels: {}\n  matchNamespaces: [a]\n  namespaces: {a: b}\n  \"a.b\": 1\n", []string{
		`6:3: syncResources[0].selectr: unknown field, did you mean "selector"?`,
		`8:3: syncResources[0].matchNamespaces: unknown field here, it belongs in syncResources[].selector`,
		`9:3: syncResources[0].namespaces: unknown field here, it belongs at the top level`,
		`10:3: syncResources[0]["a.b"]: unknown field, expected one of name, apiVersion, kind, direction, mode, statusSync, statusFrom, selector, policy, patches, targetNamespace, virtualControlledBy, clusterScoped, hostNamespace, enforceTenantProject, selectorIncludeOwnerLabels, includeForeignCopies, hostOwnedFields, specOwnership, dropKeys, keepKeys, onRemoval, deletionPolicy, carryFinalizers, onTwinDeleted, workers or extraLabels`,
	}},
	{"missing keys of a rule", "version: v1\nsyncResources:\n- name: x\n", []string{
		"3:3: syncResources[0].apiVersion: is missing: expected a string like example.io/v1",
		"3:3: syncResources[0].direction: is missing: expected toHost or fromHost",
		"3:3: syncResources[0].kind: is missing: expected a string like Widget",
	}},
	{"duplicate keys", "version: v1\nversion: v1\nnamespaces:\n  a: b\n  \"a\": c\n", []string{
		"2:1: version: duplicate key: it is also at line 1, column 1; remove one of them",
		"5:3: namespaces[a]: duplicate key: it is also at line 4, column 3; remove one of them",
	}},
	{"odd keys", "version: v1\nglobalExtraLabels:\n  1: a\n  true: b\n  [x]: c\n  ~: d\n", []string{
		`3:3: globalExtraLabels: the key "1" is the number 1: expected a string; write it as "1"`,
		`4:3: globalExtraLabels: the key "true" is the boolean true: expected a string; write it as "true"`,
		`5:3: globalExtraLabels: a key can't be a list: expected a string; put a value that starts with { or [ in quotes`,
		`6:3: globalExtraLabels: the key "~" is null: expected a string; write it as "~"`,
	}},
	{"merge key", "version: v1\nnamespaces: {a: b}\nglobalFilters:\n  <<: {}\n", []string{"4:3: globalFilters: merge keys (<<) are not supported: write the fields out"}},
	{"nulls", "version: v1\nlog_level:\nnamespaces: ~\nsyncResources:\n-\n", []string{
		"2:1: log_level: has no value: expected one of error, warn, info, debug or trace; give it one, or remove the key",
		"3:1: namespaces: has no value: expected an object (key: value); give it one, or remove the key",
		"5:2: syncResources[0]: has no value: expected an object (key: value); give it one, or remove the key",
	}},
	{"wrong types", widget + "  statusSync: \"yes\"\n  workers: many\n  dropKeys: a\n  name: 1\n  selector: []\n", []string{
		`6:15: syncResources[0].statusSync: is the string "yes": expected true or false`,
		`7:12: syncResources[0].workers: is the string "many": expected a whole number from 1 to 100`,
		`8:13: syncResources[0].dropKeys: is the string "a": expected a list; write it as ["a"]`,
		`9:9: syncResources[0].name: is the number 1: expected a string like Widget-toHost; write "1" in quotes`,
		`10:13: syncResources[0].selector: is a list: expected an object (key: value)`,
	}},
	{"labels without quotes", widget + "  extraLabels:\n    a: true\n    b: 1\n    c: 2026-01-01\n    d: 1.5\n    e: !!binary aGk=\n    f: !x y\n", []string{
		`7:8: syncResources[0].extraLabels[a]: is the boolean true: expected a string; write "true" in quotes`,
		`8:8: syncResources[0].extraLabels[b]: is the number 1: expected a string; write "1" in quotes`,
		`9:8: syncResources[0].extraLabels[c]: is the date 2026-01-01: expected a string; write "2026-01-01" in quotes`,
		`10:8: syncResources[0].extraLabels[d]: is the number 1.5: expected a string; write "1.5" in quotes`,
		`11:8: syncResources[0].extraLabels[e]: is binary data: expected a string`,
		`12:8: syncResources[0].extraLabels[f]: is of the YAML type "!x": expected a string`,
	}},
	{"wrong values", "version: v2\nlog_level: WARN\nmassDeletion: pauze\nmax_concurrent_reconciles: 101\n", []string{
		`1:10: version: unknown value "v2", expected v1`,
		`2:12: log_level: unknown value "WARN", did you mean "warn"? Expected one of error, warn, info, debug or trace`,
		`3:15: massDeletion: unknown value "pauze", did you mean "Pause"? Expected Pause or Allow`,
		`4:28: max_concurrent_reconciles: is the number 101: expected a whole number from 1 to 100`,
	}},
	{"wrong numbers", widget + "  workers: 99999999999999999999\n", []string{"6:12: syncResources[0].workers: is the number 99999999999999999999: expected a whole number from 1 to 100"}},
	{"empty", "version: v1\nnamespaces: {}\nglobalFilters: {include: []}\nsyncResources:\n- {apiVersion: v1, kind: A, direction: toHost, name: \"\", selector: {matchNamespaces: []}}\n", []string{
		"2:13: namespaces: is empty: give it at least 1, or remove the key",
		"3:26: globalFilters.include: is empty: give it at least 1, or remove the key",
		"5:54: syncResources[0].name: is an empty string: give it a value, or remove the key",
		"5:86: syncResources[0].selector.matchNamespaces: is empty: give it at least 1, or remove the key",
	}},
}

func TestF5_StrictFile(t *testing.T) {
	for _, tt := range strictCases {
		t.Run(tt.name, func(t *testing.T) { expectErrors(t, tt.text, tt.want) })
	}
}

func expectErrors(t *testing.T, text string, want []string) {
	t.Helper()
	config, err := Parse("sync.yaml", []byte(text))
	if err == nil {
		t.Fatalf("no error, got %+v", config)
	}
	if config != nil {
		t.Errorf("a configuration beside an error: %+v", config)
	}
	got := strings.Split(err.Error(), "\n")
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], "sync.yaml:")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A small file can't be huge, nor a file of faults slow.
func TestF5_Bombs(t *testing.T) {
	list := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+", ", n), ", ") }
	aliases := widget + "  dropKeys: &keys [" + list("a/b", 1000) + "]\n"
	for i := range 200 {
		aliases += fmt.Sprintf("- {apiVersion: v1, kind: K%d, direction: toHost, dropKeys: *keys}\n", i)
	}
	expectFault(t, aliases, "more than 100000 values in one file: split the rules up")
	expectFault(t, widget+"  dropKeys: ["+list("/", 30_000)+"]\n", "syncResources[0].dropKeys[29999]")
	patches := widget + "  patches:\n"
	for i := range 10_000 {
		patches += fmt.Sprintf("  - {path: spec.a%[1]d, type: rewriteName}\n  - {path: spec.a%[1]d.b, type: rewriteName}\n", i)
	}
	expectFault(t, patches, "which takes all that is there")
	expectFault(t, "version: v1\n"+strings.Repeat("x: 1\n", 30_000), "duplicate key")
	expectFault(t, "version: v1\nsyncResources:\n"+strings.Repeat("- {apiVersion: v1, kind: A, direction: toHost}\n", 5_000), "so neither would take them")
}

func expectFault(t *testing.T, text, want string) {
	t.Helper()
	if _, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("want %q, got %.300v", want, err)
	}
}
