package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// offloading is a NamespaceOffloading; age says how many seconds ago it was made.
func offloading(namespace string, age int, change ...func(*v1alpha1.NamespaceOffloading)) v1alpha1.NamespaceOffloading {
	o := v1alpha1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OffloadingName, Namespace: namespace, CreationTimestamp: metav1.Unix(int64(1e9-age), 0)},
		Spec:       v1alpha1.NamespaceOffloadingSpec{NamespaceMappingStrategy: v1alpha1.DefaultName},
	}
	for _, f := range change {
		f(&o)
	}
	return o
}

func selected(name string) func(*v1alpha1.NamespaceOffloading) {
	return func(o *v1alpha1.NamespaceOffloading) {
		o.Spec.NamespaceMappingStrategy, o.Spec.RemoteNamespaceName = v1alpha1.SelectedName, name
	}
}

func same(o *v1alpha1.NamespaceOffloading) {
	o.Spec.NamespaceMappingStrategy = v1alpha1.EnforceSameName
}

func deleted(o *v1alpha1.NamespaceOffloading) {
	now := metav1.NewTime(time.Unix(1e9, 0))
	o.DeletionTimestamp = &now
}

func on(key, value string) func(*v1alpha1.NamespaceOffloading) {
	return func(o *v1alpha1.NamespaceOffloading) {
		o.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
}

func TestN3_Counterparts(t *testing.T) {
	east, west := Remote{Name: "east", Labels: map[string]string{"zone": "e"}}, Remote{Name: "west", Labels: map[string]string{"zone": "w"}}
	long := strings.Repeat("a", 60)
	for name, test := range map[string]struct {
		offloadings []v1alpha1.NamespaceOffloading
		remotes     []Remote
		pairs       map[string][]Pair
		refused     map[string][]string
		faulty      []string
	}{
		"the default name": {
			offloadings: []v1alpha1.NamespaceOffloading{offloading("shop", 1)}, remotes: []Remote{east, west},
			pairs: map[string][]Pair{"shop": {{Local: "shop", Remote: "shop-home", Cluster: "east"}, {Local: "shop", Remote: "shop-home", Cluster: "west"}}},
		},
		"a name that is too long": {
			offloadings: []v1alpha1.NamespaceOffloading{offloading(long, 1)}, remotes: []Remote{east},
			pairs: map[string][]Pair{long: {{Local: long, Remote: long[:52] + "-f8fe1c4102", Cluster: "east"}}},
		},
		"the same name, and a selected one": {
			offloadings: []v1alpha1.NamespaceOffloading{offloading("a", 1, same), offloading("b", 1, selected("else"))}, remotes: []Remote{east},
			pairs: map[string][]Pair{"a": {{Local: "a", Remote: "a", Cluster: "east"}}, "b": {{Local: "b", Remote: "else", Cluster: "east"}}},
		},
		"the selector picks remotes": {
			offloadings: []v1alpha1.NamespaceOffloading{offloading("a", 1, on("zone", "w")), offloading("b", 1, on("zone", "x"))}, remotes: []Remote{east, west},
			pairs: map[string][]Pair{"a": {{Local: "a", Remote: "a-home", Cluster: "west"}}},
		},
		"of two that ask for one counterpart the older has it": {
			offloadings: []v1alpha1.NamespaceOffloading{offloading("young", 1, selected("x")), offloading("old", 2, selected("x"))}, remotes: []Remote{east},
			pairs:   map[string][]Pair{"old": {{Local: "old", Remote: "x", Cluster: "east"}}},
			refused: map[string][]string{"young": {"east"}},
		},
		"one that is being deleted is withdrawn, and still has its counterpart": {
			offloadings: []v1alpha1.NamespaceOffloading{offloading("old", 2, selected("x"), deleted), offloading("young", 1, selected("x"))}, remotes: []Remote{east},
			pairs:   map[string][]Pair{"old": {{Local: "old", Remote: "x", Cluster: "east", Withdrawn: true}}},
			refused: map[string][]string{"young": {"east"}},
		},
		"a remote that leaves": {
			offloadings: []v1alpha1.NamespaceOffloading{offloading("a", 1)}, remotes: []Remote{{Name: "east", Leaving: true}, west},
			pairs: map[string][]Pair{"a": {{Local: "a", Remote: "a-home", Cluster: "east", Withdrawn: true}, {Local: "a", Remote: "a-home", Cluster: "west"}}},
		},
		"what belongs to clusters themselves": {
			offloadings: []v1alpha1.NamespaceOffloading{offloading("kube-public", 1, same)}, remotes: []Remote{east},
			faulty: []string{"kube-public"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pairs, refused, faulty := map[string][]Pair{}, map[string][]string{}, []string{}
			for namespace, o := range Offloads(test.offloadings, test.remotes, "home") {
				if len(o.Pairs) > 0 {
					pairs[namespace] = o.Pairs
				}
				for remote := range o.Refused {
					refused[namespace] = append(refused[namespace], remote)
				}
				if o.Err != nil {
					faulty = append(faulty, namespace)
				}
			}
			for _, pair := range []struct{ got, want any }{
				{pairs, orEmpty(test.pairs)}, {refused, orEmpty(test.refused)}, {faulty, append([]string{}, test.faulty...)},
			} {
				if diff := cmp.Diff(pair.want, pair.got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// Where it takes a provider's consent, a namespace counts from when it was given; what was given once counts on.
func TestN4_NamespacesThatAreNotGiven(t *testing.T) {
	given := func(o *v1alpha1.NamespaceOffloading) {
		o.Status.Remotes = []v1alpha1.RemoteNamespace{{Cluster: "east", Granted: true}}
	}
	for consent, want := range map[v1alpha1.Consent]map[string]bool{
		v1alpha1.ConsentProvider: {"given": false, "new": true}, v1alpha1.ConsentConsumer: {"given": false, "new": false},
	} {
		offloads := Offloads([]v1alpha1.NamespaceOffloading{offloading("given", 1, given), offloading("new", 1)}, []Remote{{Name: "east", Consent: consent}}, "home")
		var pairs []Pair
		for namespace, ungranted := range want {
			if got := offloads[namespace].Pairs[0].Ungranted; got != ungranted {
				t.Errorf("%s, %s: ungranted is %v", consent, namespace, got)
			}
			pairs = append(pairs, offloads[namespace].Pairs...)
		}
		out := Compile(Input{Pairs: pairs, Remotes: []Remote{{Name: "east", Consent: consent}}})
		for namespace, ungranted := range want {
			if _, counts := out.Configs["east"].Namespaces[namespace]; counts == ungranted {
				t.Errorf("%s, %s: counts is %v", consent, namespace, counts)
			}
		}
	}
}
