package fleet

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// ofServices makes a Crossing one of Services.
func ofServices(s *v1alpha1.CrossingSpec) {
	s.Resource = v1alpha1.GroupVersionResource{Version: "v1", Resource: "services"}
}

func toWest(s *v1alpha1.CrossingSpec) {
	s.RemoteSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "w"}}
}

// withEndpoints compiles for the remotes east and west, where the controller of endpoints runs.
func withEndpoints(carried string, crossings ...v1alpha1.Crossing) Output {
	return Compile(Input{
		Crossings: crossings, Endpoints: true,
		Pairs:   []Pair{{Local: "shop", Remote: "shop-home", Cluster: "east"}, {Local: "shop", Remote: "shop-home", Cluster: "west"}},
		Remotes: []Remote{{Name: "east"}, {Name: "west", Labels: map[string]string{"zone": "w"}}},
		Kind: func(string, schema.GroupVersionResource) Kind {
			return Kind{Kind: "Service", LocalStatus: true, RemoteStatus: true}
		},
		Carried: func(crossing, _ string) bool { return crossing == carried },
	})
}

// ruleOf returns the rule of the endpoints for a remote, or nil, and whether the remote is asked for their kind.
func ruleOf(out Output, remote string) (rule *boundary.Rule, wanted bool) {
	if at := slices.IndexFunc(out.Configs[remote].Rules, func(r *boundary.Rule) bool { return r.Name == EndpointsRule }); at >= 0 {
		rule = out.Configs[remote].Rules[at]
	}
	return rule, slices.ContainsFunc(out.Wanted[remote], func(r v1alpha1.RequestedResource) bool {
		return r.Group == "isthmus.dev" && r.Resource == "shadowendpointslices" && r.Access == v1alpha1.AccessWrite
	})
}

// With the Services of a Crossing their endpoints cross, to each of its remotes what was made for it, by one rule however
// many Crossings there are.
func TestE1_EndpointsFollowTheCrossingOfServices(t *testing.T) {
	out := withEndpoints("", crossing("services", 2, ofServices), crossing("more", 1, ofServices, toWest, func(s *v1alpha1.CrossingSpec) {
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	}), crossing("widgets", 1))
	for remote, rules := range map[string]int{"east": 3, "west": 4} {
		rule, wanted := ruleOf(out, remote)
		if rule == nil || !wanted || len(out.Configs[remote].Rules) != rules {
			t.Fatalf("%s: rule %v, wanted %v, of %d rules", remote, rule, wanted, len(out.Configs[remote].Rules))
		}
		for destination, selects := range map[string]bool{remote: true, "elsewhere": false} {
			if rule.Selector.Matches(labels.Set{v1alpha1.DestinationLabel: destination}) != selects {
				t.Errorf("%s: what is for %s is selected: %v", remote, destination, !selects)
			}
		}
		if rule.Kind != v1alpha1.GroupVersion.WithKind("ShadowEndpointSlice") || rule.Policy != boundary.PolicyAll || rule.ReturnStatus || rule.OnRemoval != boundary.RemovalDelete {
			t.Errorf("%s: %+v", remote, rule)
		}
		if !slices.Contains(out.Kinds[remote], Shadows) {
			t.Errorf("%s: kinds %v", remote, out.Kinds[remote])
		}
	}
}

// Without the controller of endpoints, without Services, or with Services that come from the remote, nothing follows (S1).
func TestS1E1_NothingFollowsElse(t *testing.T) {
	mirror := func(s *v1alpha1.CrossingSpec) { s.Direction = v1alpha1.FromRemote }
	for name, out := range map[string]Output{
		"no controller of endpoints": compile(served, crossing("services", 1, ofServices)),
		"no Services":                withEndpoints("", crossing("widgets", 1)),
		"a mirror of Services":       withEndpoints("", crossing("services", 1, ofServices, mirror)),
		"a faulty Crossing":          withEndpoints("", crossing("services", 1, ofServices, func(s *v1alpha1.CrossingSpec) { s.RemoteOwnedFields = []string{"status"} })),
	} {
		if rule, wanted := ruleOf(out, "east"); rule != nil || wanted {
			t.Errorf("%s: rule %v, wanted %v", name, rule, wanted)
		}
	}
}

// Where Services do not cross any more, their endpoints go, and the rights to that stay until they are gone.
func TestD5E1_EndpointsGoWithTheServices(t *testing.T) {
	deselected := crossing("services", 1, ofServices, toWest)
	for _, carried := range []string{"services", EndpointsRule} {
		if rule, wanted := ruleOf(withEndpoints(carried, deselected), "east"); rule == nil || !labels.MatchesNothing(rule.Selector) || !wanted {
			t.Errorf("deselected, with twins of %s left: rule %v, wanted %v", carried, rule, wanted)
		}
	}
	if rule, wanted := ruleOf(withEndpoints("", deselected), "east"); rule != nil || wanted {
		t.Errorf("deselected, without twins: rule %v, wanted %v", rule, wanted)
	}
	now := metav1.Now()
	deleted := crossing("services", 1, ofServices)
	deleted.DeletionTimestamp = &now
	if rule, wanted := ruleOf(withEndpoints("", deleted), "east"); rule != nil || !wanted {
		t.Errorf("deleted: rule %v, wanted %v", rule, wanted)
	}
	orphaned := crossing("services", 1, ofServices, func(s *v1alpha1.CrossingSpec) { s.OnRemoval = "Orphan" })
	if rule, _ := ruleOf(withEndpoints("", orphaned), "east"); rule.OnRemoval != boundary.RemovalOrphan {
		t.Errorf("orphaned: %s", rule.OnRemoval)
	}
	if a, b := withEndpoints("", orphaned), withEndpoints("", crossing("services", 1, ofServices)); a.Configs["east"].Hash == b.Configs["east"].Hash {
		t.Error("a change of onRemoval is not seen")
	}
}

// What crosses with Services can't be named besides.
func TestF5E1_NoCrossingOfEndpoints(t *testing.T) {
	own := crossing("own", 1, func(s *v1alpha1.CrossingSpec) {
		s.Resource = v1alpha1.GroupVersionResource{Group: "isthmus.dev", Version: "v1alpha1", Resource: "shadowendpointslices"}
	})
	out := withEndpoints("", own, crossing("services", 1, ofServices))
	if err := out.Crossings["own"].Err; err == nil || !strings.Contains(err.Error(), "delete this one") {
		t.Errorf("%v", err)
	}
	if rule, _ := ruleOf(out, "east"); rule == nil {
		t.Error("the rule of the endpoints is missing")
	}
	if err := compile(served, own).Crossings["own"].Err; err != nil {
		t.Errorf("without the controller of endpoints: %v", err)
	}
}
