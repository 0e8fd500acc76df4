package boundary

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

func TestS2_SelectorNamespacesAndPairs(t *testing.T) {
	selector := func(text string) func(*Rule) {
		parsed, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return func(r *Rule) { r.Selector = parsed }
	}
	namespaces := func(include, exclude string) func(*Rule) {
		return func(r *Rule) { r.Namespaces = NamespaceFilter{strings.Fields(include), strings.Fields(exclude)} }
	}
	for _, test := range []struct {
		name  string
		rule  func(*Rule)
		pairs NamespacePairs
		want  Verdict
	}{
		{"everything", func(*Rule) {}, nil, Selected},
		{"labels match", selector("color=blue"), nil, Selected},
		{"labels do not match", selector("color=red"), nil, NotSelected},
		{"an expression matches", selector("color in (red,blue),!size"), nil, Selected},
		{"an expression does not match", selector("color notin (blue)"), nil, NotSelected},
		{"a key that must exist", selector("size"), nil, NotSelected},
		{"included", namespaces("sh*", ""), nil, Selected},
		{"not included", namespaces("other team-?", ""), nil, NotSelected},
		{"excluded", namespaces("", "s*"), nil, NotSelected},
		{"exclusion wins", namespaces("shop", "shop"), nil, NotSelected},
		{"excluded elsewhere", namespaces("", "other"), nil, Selected},
		{"paired", func(*Rule) {}, NamespacePairs{"shop": "shop-west"}, Selected},
		{"not paired", func(*Rule) {}, NamespacePairs{"other": "shop"}, NotSelected},
		{"no pairs yet", func(*Rule) {}, NamespacePairs{}, NotSelected},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := widgetRule(test.rule).Selects(object(t, blueWidget), SameName{Pairs: test.pairs})
			if got.Verdict != test.want || got.Reason == "" {
				t.Errorf("got %v, %q, want %v", got.Verdict, got.Reason, test.want)
			}
		})
	}
}

func TestS2_ClusterScopedObjectsAreNotFiltered(t *testing.T) {
	filter := NamespaceFilter{Include: []string{"shop"}, Exclude: []string{"*"}}
	if !filter.Admits("") {
		t.Error("an object without a namespace was filtered by it")
	}
}

func TestS2_LiteralNamespaces(t *testing.T) {
	for _, test := range []struct {
		filter NamespaceFilter
		want   string
		ok     bool
	}{
		{NamespaceFilter{}, "", false},
		{NamespaceFilter{Include: []string{"a", "b"}}, "a b", true},
		{NamespaceFilter{Include: []string{"a", "b"}, Exclude: []string{"b*"}}, "a", true},
		{NamespaceFilter{Include: []string{"a", "b*"}}, "", false},
		{NamespaceFilter{Include: []string{"[ab]"}}, "", false},
		{NamespaceFilter{Exclude: []string{"a"}}, "", false},
	} {
		got, ok := test.filter.Literal()
		if strings.Join(got, " ") != test.want || ok != test.ok {
			t.Errorf("%+v: got %q, %v, want %q, %v", test.filter, got, ok, test.want, test.ok)
		}
	}
}

func TestS3_PolicyValuesAreBooleans(t *testing.T) {
	for _, test := range []struct {
		annotations                string // key=value, comma-separated
		allowList, denyList, allow Verdict
	}{
		{"", NotSelected, Selected, Selected},
		{"isthmus.dev/allow-reflection=true", Selected, Selected, Selected},
		{"liqo.io/allow-reflection=true", Selected, Selected, Selected},
		{"isthmus.dev/allow-reflection=true,liqo.io/allow-reflection=true", Selected, Selected, Selected},
		{"isthmus.dev/allow-reflection=true,liqo.io/allow-reflection=false", Invalid, Invalid, Selected},
		{"isthmus.dev/allow-reflection=false", NotSelected, Selected, Selected},
		{"isthmus.dev/allow-reflection=True", Invalid, Invalid, Selected},
		{"isthmus.dev/allow-reflection=1", Invalid, Invalid, Selected},
		{"isthmus.dev/allow-reflection=yes", Invalid, Invalid, Selected},
		{"isthmus.dev/allow-reflection=", Invalid, Invalid, Selected},
		{"liqo.io/allow-reflection=x", Invalid, Invalid, Selected},
		{"isthmus.dev/skip-reflection=true", NotSelected, NotSelected, Selected},
		{"liqo.io/skip-reflection=true", NotSelected, NotSelected, Selected},
		{"isthmus.dev/skip-reflection=false", NotSelected, Selected, Selected},
		{"liqo.io/skip-reflection=no", Invalid, Invalid, Selected},
		{"isthmus.dev/skip-reflection=true,liqo.io/skip-reflection=false", Invalid, Invalid, Selected},
		{"isthmus.dev/allow-reflection=true,isthmus.dev/skip-reflection=true", Invalid, Invalid, Selected},
		{"isthmus.dev/allow-reflection=true,liqo.io/skip-reflection=false", Invalid, Invalid, Selected},
		{"other.io/allow-reflection=x", NotSelected, Selected, Selected},
	} {
		source := object(t, blueWidget)
		annotations := map[string]string{}
		for pair := range strings.SplitSeq(test.annotations, ",") {
			if key, value, ok := strings.Cut(pair, "="); ok {
				annotations[key] = value
			}
		}
		source.SetAnnotations(annotations)
		for policy, want := range map[Policy]Verdict{PolicyAllowList: test.allowList, PolicyDenyList: test.denyList, PolicyAll: test.allow} {
			if got := widgetRule(func(r *Rule) { r.Policy = policy }).Selects(source, SameName{}); got.Verdict != want {
				t.Errorf("%s with %q: got %v, %q, want %v", policy, test.annotations, got.Verdict, got.Reason, want)
			}
		}
	}
}

// A contradiction is shown, and a twin that exists stays as it is.
func TestS3_InvalidPolicyKeepsTheTwin(t *testing.T) {
	contradict := func(in *Input) {
		in.Rules[0].Policy = PolicyDenyList
		in.Source.SetAnnotations(map[string]string{"isthmus.dev/skip-reflection": "maybe"})
	}
	want := expect{Refuse, UntilChange, `isthmus.dev/skip-reflection is "maybe"`}
	want.check(t, Decide(newScene(t, contradict).Input))
	want.check(t, Decide(newScene(t).crossed(contradict).Input))
	want.check(t, Decide(newScene(t).crossed(contradict, dyingSource).Input))
}

// Any key of the stamp bars a source, whole or damaged, whosoever it is, as label or annotation.
func TestS4_StampedObjectsAreNoSources(t *testing.T) {
	keys := append([]string{}, stampKeys...)
	keys = append(keys, "vcluster.loft.sh/managed-by", "vcluster.loft.sh/object-name", "offloading.liqo.io/origin", "offloading.liqo.io/destination",
		"kupe.cloud/managed-by", "kupe.cloud/synced-from")
	for _, key := range keys {
		for _, field := range []string{"labels", "annotations"} {
			for _, value := range []any{"", "junk", nil, int64(7), map[string]any{}} {
				source := object(t, blueWidget)
				set(source, value, "metadata", field, key)
				got := widgetRule().Selects(source, SameName{})
				if got.Verdict != NotSelected || !strings.Contains(got.Reason, key) {
					t.Errorf("%s %s: %v: got %v, %q", field, key, value, got.Verdict, got.Reason)
				}
			}
		}
	}
}

func TestS4_TwinsDoNotCrossAgain(t *testing.T) {
	s := newScene(t).crossed()
	back := newScene(t, func(in *Input) {
		in.Identity = Identity{Cluster: "east", Instance: "main", Home: "east", ClusterUID: "uid-east"}
		in.Source = s.Twin
	})
	expect{action: Nothing}.check(t, Decide(back.Input))
	// Nor under the same identity, where a flow leads back into its own cluster.
	back.Identity = west
	expect{action: Nothing}.check(t, Decide(back.Input))
	if Keeps(back.Rules, s.Twin, SameName{}) {
		t.Error("a twin matters to a rule")
	}
}

func TestS5_RulesThatOverlap(t *testing.T) {
	named := func(name string, change ...func(*Rule)) *Rule {
		return widgetRule(append(change, func(r *Rule) { r.Name = name })...)
	}
	no := func(r *Rule) { r.Selector = labels.SelectorFromSet(labels.Set{"color": "red"}) }
	allow := func(r *Rule) { r.Policy = PolicyAllowList }
	odd := func(in *Input) { in.Source.SetAnnotations(map[string]string{"isthmus.dev/allow-reflection": "odd"}) }
	for _, test := range []struct {
		name    string
		rules   []*Rule
		stamped bool // there is a twin of the rule "widgets"
		change  func(*Input)
		want    expect
		rule    string
	}{
		{"one of two", []*Rule{named("a", no), named("b")}, false, nil, expect{action: Create}, "b"},
		{"both, no twin", []*Rule{named("a"), named("b")}, false, nil, expect{Refuse, UntilChange, "rules a, b all select it"}, ""},
		{"both, the twin's rule is first", []*Rule{named("widgets"), named("b")}, true, nil, expect{action: Nothing}, "widgets"},
		{"both, the twin's rule is last", []*Rule{named("b"), named("widgets")}, true, nil, expect{action: Nothing}, "widgets"},
		{"moves to another rule", []*Rule{named("widgets", no), named("b")}, true, nil, expect{action: Apply}, "b"},
		{"two others", []*Rule{named("a"), named("b"), named("widgets", no)}, true, nil, expect{Refuse, UntilChange, "rules a, b all select it"}, ""},
		{"none", []*Rule{named("widgets", no), named("b", no)}, true, nil, expect{action: Delete}, ""},
		{"the twin's rule needs no opt-in, another one does, first", []*Rule{named("a", allow), named("widgets")}, true, odd, expect{action: Apply}, "widgets"},
		{"the twin's rule needs no opt-in, another one does, last", []*Rule{named("widgets"), named("a", allow)}, true, odd, expect{action: Apply}, "widgets"},
		{"an opt-in that can't be read", []*Rule{named("a"), named("b", allow)}, false, odd, expect{Refuse, UntilChange, "odd"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t)
			if test.stamped {
				s.crossed()
			}
			s.Rules = test.rules
			if test.change != nil {
				test.change(&s.Input)
			}
			d := Decide(s.Input)
			test.want.check(t, d)
			if name := ruleName(d); name != test.rule {
				t.Errorf("rule %q took it, want %q", name, test.rule)
			}
			if test.want.action == Apply && d.Body["metadata"].(map[string]any)["annotations"].(map[string]any)[AnnotationRule] != test.rule {
				t.Error("the twin is not stamped anew")
			}
		})
	}
}

func ruleName(d Decision) string {
	if d.Rule == nil {
		return ""
	}
	return d.Rule.Name
}

func TestE1_Wish(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "nothing",
		"isthmus.dev/allow-reflection=true": "true",
		"liqo.io/allow-reflection=false":    "false",
		"isthmus.dev/skip-reflection=true":  "false",
		"liqo.io/skip-reflection=false":     "true",
		"isthmus.dev/skip-reflection=TRUE":  "annotation isthmus.dev/skip-reflection",
		"isthmus.dev/allow-reflection=":     "annotation isthmus.dev/allow-reflection",
		"isthmus.dev/allow-reflection=true,liqo.io/skip-reflection=true":   "both set",
		"isthmus.dev/allow-reflection=true,liqo.io/allow-reflection=false": "contradict",
	} {
		annotations := map[string]string{}
		for _, one := range strings.Split(text, ",") {
			if key, value, ok := strings.Cut(one, "="); ok {
				annotations[key] = value
			}
		}
		got := "nothing"
		if wish, err := Wish(annotations); err != nil {
			got = err.Error()
		} else if wish != nil {
			got = fmt.Sprint(*wish)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, expected %s", text, got, want)
		}
	}
}

func TestE4_Flag(t *testing.T) {
	const name = "use-direct-connections"
	for _, test := range []struct {
		annotations  map[string]string
		want, faulty bool
	}{
		{nil, false, false},
		{map[string]string{"isthmus.dev/use-direct-connections": "true"}, true, false},
		{map[string]string{"liqo.io/use-direct-connections": "true"}, true, false},
		{map[string]string{"isthmus.dev/use-direct-connections": "false"}, false, false},
		{map[string]string{"isthmus.dev/use-direct-connections": "yes"}, false, true},
		{map[string]string{"isthmus.dev/use-direct-connections": "true", "liqo.io/use-direct-connections": "false"}, false, true},
		{map[string]string{"example.io/use-direct-connections": "true"}, false, false},
	} {
		if got, err := Flag(test.annotations, name); got != test.want || (err != nil) != test.faulty {
			t.Errorf("%v: %v, %v", test.annotations, got, err)
		}
	}
}
