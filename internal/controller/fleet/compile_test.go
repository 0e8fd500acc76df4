package fleet

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
)

// crossing is a Crossing as the API server defaults it; age says how many seconds ago it was made.
func crossing(name string, age int, change ...func(*v1alpha1.CrossingSpec)) v1alpha1.Crossing {
	c := v1alpha1.Crossing{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(int64(1e9-age), 0)},
		Spec: v1alpha1.CrossingSpec{
			Resource:  v1alpha1.GroupVersionResource{Group: "example.io", Version: "v1", Resource: "widgets"},
			Direction: v1alpha1.ToRemote, Policy: "AllowList", SpecOwnership: "Shared", DeletionPolicy: "Background", OnRemoval: "Delete", Workers: 2,
		},
	}
	for _, f := range change {
		f(&c.Spec)
	}
	return c
}

func compile(kind Kind, crossings ...v1alpha1.Crossing) Output {
	return Compile(Input{
		Crossings: crossings,
		Pairs:     []Pair{{Local: "shop", Remote: "shop-home", Cluster: "east"}, {Local: "old", Remote: "old-home", Cluster: "east", Withdrawn: true}, {Local: "shop", Remote: "shop-home", Cluster: "west"}},
		Remotes:   []Remote{{Name: "east", Consent: v1alpha1.ConsentProvider}, {Name: "west", Labels: map[string]string{"zone": "w"}, Consent: v1alpha1.ConsentConsumer}},
		Kind:      func(string, schema.GroupVersionResource) Kind { return kind }, MassDeletion: boundary.MassDeletionPause,
		Carried: func(crossing, _ string) bool { return crossing == "carried" },
	})
}

var served = Kind{Kind: "Widget", LocalStatus: true, RemoteStatus: true}

// A Crossing becomes the rule that an entry of a file would be.
func TestS1_ACrossingIsARule(t *testing.T) {
	out := compile(served, crossing("widgets", 1, func(s *v1alpha1.CrossingSpec) {
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		s.Patches = []v1alpha1.Patch{{Path: "spec.secretName", Type: "rewriteName"}}
		s.RemoteOwnedFields = []string{"spec.replicas"}
		s.Status = &v1alpha1.StatusReturn{From: "west"}
		s.SpecOwnership, s.DeletionPolicy, s.OnRemoval, s.Workers = "Exclusive", "Foreground", "Orphan", 5
	}))
	for _, remote := range []string{"east", "west"} {
		conf := out.Configs[remote]
		if len(conf.Rules) != 1 {
			t.Fatalf("%s has %d rules: %+v", remote, len(conf.Rules), out.Crossings["widgets"])
		}
		r := conf.Rules[0]
		got := []any{
			r.Name, r.Kind.String(), r.Direction, r.Mode, r.Policy, r.Selector.String(), r.ReturnStatus, r.StatusFrom, r.SpecOwnership,
			r.DeletionPolicy, r.OnRemoval, r.Workers, len(r.RemoteOwned), r.Patches != nil, conf.CreateNamespaces, conf.Confined,
		}
		want := []any{
			"widgets", "example.io/v1, Kind=Widget", boundary.ToRemote, boundary.ModeSync, boundary.PolicyAllowList, "a=b", true, "west", boundary.OwnershipExclusive,
			boundary.DeletionForeground, boundary.RemovalOrphan, 5, 1, true, remote == "west", true,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", remote, diff)
		}
	}
	east := out.Configs["east"]
	if diff := cmp.Diff(boundary.NamespacePairs{"shop": "shop-home"}, east.Namespaces); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(east.Withdrawn, []string{"old"}) {
		t.Errorf("withdrawn: %v", east.Withdrawn)
	}
	if diff := cmp.Diff([]v1alpha1.RequestedResource{{Group: "example.io", Resource: "widgets", Access: v1alpha1.AccessWrite}}, out.Wanted["east"]); diff != "" {
		t.Error(diff)
	}
}

func TestM2_FromRemoteIsAMirror(t *testing.T) {
	out := compile(served, crossing("widgets", 1, func(s *v1alpha1.CrossingSpec) { s.Direction = v1alpha1.FromRemote }))
	r := out.Configs["east"].Rules[0]
	if r.Direction != boundary.FromRemote || r.Mode != boundary.ModeMirror || r.ReturnStatus {
		t.Errorf("%+v", r)
	}
	naming := out.Configs["east"].Naming(boundary.FromRemote, "home")
	if targets := naming.Targets(r, "shop-home"); !slices.Equal(targets, []string{"shop"}) {
		t.Errorf("mirrors go into %v", targets)
	}
	if out.Wanted["east"][0].Access != v1alpha1.AccessRead {
		t.Errorf("asks for %+v", out.Wanted["east"])
	}
}

// Unless somebody says so, status returns where both sides have it.
func TestT1_StatusReturnsWhereThereIsOne(t *testing.T) {
	for name, test := range map[string]struct {
		kind Kind
		say  *bool
		want bool
	}{
		"both":           {served, nil, true},
		"not here":       {Kind{Kind: "Widget", RemoteStatus: true}, nil, false},
		"not there":      {Kind{Kind: "Widget", LocalStatus: true}, nil, false},
		"asked for":      {Kind{Kind: "Widget"}, ptr.To(true), true},
		"not asked for":  {served, ptr.To(false), false},
		"told of itself": {served, ptr.To(true), true},
	} {
		out := compile(test.kind, crossing("widgets", 1, func(s *v1alpha1.CrossingSpec) { s.Status = &v1alpha1.StatusReturn{Return: test.say} }))
		if got := out.Configs["east"].Rules[0].ReturnStatus; got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestF5_FaultyCrossings(t *testing.T) {
	for name, test := range map[string]struct {
		crossings []v1alpha1.Crossing
		faulty    string
		says      []string
	}{
		"a path that is none": {
			[]v1alpha1.Crossing{crossing("bad", 1, func(s *v1alpha1.CrossingSpec) { s.Patches = []v1alpha1.Patch{{Path: "spec[", Type: "rewriteName"}} })},
			"bad", []string{"patches[0].path"},
		},
		"a field whose owner is fixed": {
			[]v1alpha1.Crossing{crossing("bad", 1, func(s *v1alpha1.CrossingSpec) { s.RemoteOwnedFields = []string{"status"} })},
			"bad", []string{"hostOwnedFields[0]", "status"},
		},
		"another version of what an older one carries": {
			[]v1alpha1.Crossing{crossing("young", 1, func(s *v1alpha1.CrossingSpec) { s.Resource.Version = "v2" }), crossing("old", 2)},
			"young", []string{"Crossing old", "version v1"},
		},
		"the same objects": {
			[]v1alpha1.Crossing{crossing("young", 1), crossing("old", 2, func(s *v1alpha1.CrossingSpec) { s.Selector = &metav1.LabelSelector{} })},
			"young", []string{"selects the same objects", "Crossing old"},
		},
		"a selector that is none": {
			[]v1alpha1.Crossing{crossing("bad", 1, func(s *v1alpha1.CrossingSpec) {
				s.RemoteSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
			})},
			"bad", []string{"spec.remoteSelector"},
		},
	} {
		out := compile(served, test.crossings...)
		for _, c := range test.crossings {
			err := out.Crossings[c.Name].Err
			if (err != nil) != (c.Name == test.faulty) {
				t.Errorf("%s: %s: %v", name, c.Name, err)
			}
			for _, text := range test.says {
				if err != nil && !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %q lacks %q", name, err, text)
				}
			}
		}
		if rules := len(out.Configs["east"].Rules); rules != len(test.crossings)-1 {
			t.Errorf("%s: %d rules", name, rules)
		}
		// What it carried before it was faulty stays, unless it is deleted.
		if waiting := out.Configs["east"].Waiting; !slices.Equal(waiting, []string{test.faulty}) {
			t.Errorf("%s: waiting are %v", name, waiting)
		}
		now := metav1.Now()
		for i := range test.crossings {
			test.crossings[i].DeletionTimestamp = &now
		}
		if waiting := compile(served, test.crossings...).Configs["east"].Waiting; len(waiting) > 0 {
			t.Errorf("%s: waiting are %v, though all are deleted", name, waiting)
		}
	}
}

// A kind that nobody serves yet is asked for all the same, and crosses when it comes.
func TestS7_UnservedKinds(t *testing.T) {
	out := compile(Kind{LocalErr: cluster.ErrNotServed, RemoteErr: cluster.ErrNotServed}, crossing("widgets", 1))
	if len(out.Configs["east"].Rules) != 0 || out.Crossings["widgets"].Unserved["east"] == nil || len(out.Wanted["east"]) != 1 || !slices.Equal(out.Configs["east"].Waiting, []string{"widgets"}) {
		t.Errorf("%+v", out)
	}
	hash := out.Configs["east"].Hash
	out = compile(Kind{Kind: "Widget", LocalErr: cluster.ErrNotServed}, crossing("widgets", 1))
	if len(out.Configs["east"].Rules) != 1 || len(out.Configs["east"].Waiting) != 0 || out.Configs["east"].Hash == hash {
		t.Errorf("%+v", out)
	}
}

// Cluster-scoped kinds cross as mirrors only, and nothing is asked for where they can't.
func TestS6_ClusterScopedKinds(t *testing.T) {
	kind := served
	kind.ClusterScoped = true
	out := compile(kind, crossing("widgets", 1))
	if out.Crossings["widgets"].Err == nil || len(out.Configs["east"].Rules) != 0 || len(out.Wanted["east"]) != 0 {
		t.Errorf("%+v", out.Crossings["widgets"])
	}
	out = compile(kind, crossing("widgets", 1, func(s *v1alpha1.CrossingSpec) { s.Direction = v1alpha1.FromRemote }))
	if out.Crossings["widgets"].Err != nil || len(out.Configs["east"].Rules) != 1 {
		t.Errorf("%+v", out.Crossings["widgets"])
	}
}

func TestD5_ADeletedCrossingHasNoRule(t *testing.T) {
	c := crossing("widgets", 1)
	now := metav1.Now()
	c.DeletionTimestamp = &now
	out := compile(served, c)
	if len(out.Configs["east"].Rules) != 0 || len(out.Wanted["east"]) != 1 || !slices.Equal(out.Crossings["widgets"].Remotes, []string{"east", "west"}) {
		t.Errorf("%+v", out)
	}
	// What it selected is free for another one.
	if out = compile(served, c, crossing("new", 0)); out.Crossings["new"].Err != nil || len(out.Configs["east"].Rules) != 1 {
		t.Errorf("%+v", out)
	}
}

// On a remote that is not selected any more, what was carried there goes as if it were not selected; the rights to that are
// asked for until then.
func TestD2_ADeselectedRemote(t *testing.T) {
	out := compile(served, crossing("carried", 1, func(s *v1alpha1.CrossingSpec) {
		s.RemoteSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "w"}}
	}))
	for remote, nothing := range map[string]bool{"east": true, "west": false} {
		if rules := out.Configs[remote].Rules; len(rules) != 1 || labels.MatchesNothing(rules[0].Selector) != nothing || len(out.Wanted[remote]) != 1 {
			t.Errorf("%s: %+v", remote, rules)
		}
	}
	if !slices.Equal(out.Crossings["carried"].Remotes, []string{"west"}) {
		t.Errorf("%+v", out.Crossings["carried"])
	}
}

func TestS1_RemoteSelector(t *testing.T) {
	out := compile(served, crossing("widgets", 1, func(s *v1alpha1.CrossingSpec) {
		s.RemoteSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "w"}}
	}))
	if len(out.Configs["east"].Rules) != 0 || len(out.Configs["west"].Rules) != 1 || !slices.Equal(out.Crossings["widgets"].Remotes, []string{"west"}) {
		t.Errorf("%+v", out)
	}
}

// Configurations that differ tell so by their hashes, and equal ones do not.
func TestF2_Hashes(t *testing.T) {
	patched := crossing("widgets", 1, func(s *v1alpha1.CrossingSpec) { s.Patches = []v1alpha1.Patch{{Path: "spec.b", Type: "rewriteName"}} })
	if a, b := compile(served, patched), compile(served, patched); a.Configs["east"].Hash != b.Configs["east"].Hash {
		t.Error("equal configurations with patches differ")
	}
	a, b := compile(served, crossing("widgets", 1)), compile(served, crossing("widgets", 1))
	if a.Configs["east"].Hash != b.Configs["east"].Hash {
		t.Error("equal configurations differ")
	}
	for name, change := range map[string]func(*v1alpha1.CrossingSpec){
		"selector": func(s *v1alpha1.CrossingSpec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"patches": func(s *v1alpha1.CrossingSpec) { s.Patches = []v1alpha1.Patch{{Path: "spec.a", Type: "rewriteName"}} },
		"paths":   func(s *v1alpha1.CrossingSpec) { s.RemoteOwnedFields = []string{"spec.a"} },
		"workers": func(s *v1alpha1.CrossingSpec) { s.Workers = 3 },
		"status":  func(s *v1alpha1.CrossingSpec) { s.Status = &v1alpha1.StatusReturn{Return: ptr.To(false)} },
	} {
		if c := compile(served, crossing("widgets", 1, change)); c.Configs["east"].Hash == a.Configs["east"].Hash {
			t.Errorf("a change of %s is not seen", name)
		}
	}
}

// A pair that is not ready has its place in the configuration, and is named there; readiness alone makes another configuration.
func TestD_AnUnreadyPairIsKept(t *testing.T) {
	conf := func(pair Pair) *config.Config {
		pair.Local, pair.Remote, pair.Cluster = "shop", "till", "east"
		return Compile(Input{Pairs: []Pair{pair}, Remotes: []Remote{{Name: "east"}}}).Configs["east"]
	}
	ready, unready := conf(Pair{}), conf(Pair{Unready: true})
	if len(ready.Unready) != 0 || !slices.Equal(unready.Unready, []string{"shop"}) || unready.Namespaces["shop"] != "till" {
		t.Errorf("unready: %v of %v", unready.Unready, unready.Namespaces)
	}
	if ready.Hash == unready.Hash {
		t.Error("an engine would not learn that a pair is not ready any more")
	}
	if ready.CreateNamespaces {
		t.Error("namespaces are made where nobody said who makes them")
	}
}
