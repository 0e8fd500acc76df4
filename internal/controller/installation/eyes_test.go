package installation

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
)

// A change wakes whom it matters to: where all objects of a kind are looked at, as before an uninstall that takes their definition
// along, also what nobody installed.
func TestI5I8_WhomAChangeMattersTo(t *testing.T) {
	installed := feedKey{resource: configMaps, Selection: cluster.Selection{Namespace: "agent", Labels: v1alpha1.InstalledByLabel + "=hub"}}
	all, one := feedKey{resource: configMaps}, feedKey{resource: configMaps, Selection: cluster.Selection{Namespace: "agent", Name: "it"}}
	a, b := types.NamespacedName{Namespace: "fleet", Name: "a"}, types.NamespacedName{Namespace: "fleet", Name: "b"}
	e := newEyes(t.Context(), "hub", nil)
	e.users = map[types.NamespacedName]map[feedKey]bool{a: {installed: true, all: true, one: true}, b: {installed: true}}
	of := func(stamp string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		if stamp != "" {
			o.SetAnnotations(map[string]string{v1alpha1.InstallationAnnotation: stamp})
		}
		return o
	}
	for name, tt := range map[string]struct {
		key           feedKey
		before, after *unstructured.Unstructured
		want          []types.NamespacedName
	}{
		"b's, where what was installed is looked at": {installed, of("hub/fleet/b/uid"), nil, []types.NamespacedName{b}},
		"from a to b":                                      {installed, of("hub/fleet/a/uid"), of("hub/fleet/b/uid"), []types.NamespacedName{a, b}},
		"nobody's, with a label that was copied":           {installed, of(""), of(""), nil},
		"another hub's":                                    {installed, nil, of("other/fleet/a/uid"), nil},
		"a new list":                                       {installed, nil, nil, []types.NamespacedName{a, b}},
		"nobody's, where all is looked at":                 {all, of(""), nil, []types.NamespacedName{a}},
		"b's, where all is looked at, by a alone":          {all, nil, of("hub/fleet/b/uid"), []types.NamespacedName{a}},
		"nobody's, where one object is looked at, as by a": {one, of(""), nil, []types.NamespacedName{a}},
	} {
		got := e.concerned(tt.key, tt.before, tt.after)
		slices.SortFunc(got, func(x, y types.NamespacedName) int { return strings.Compare(x.String(), y.String()) })
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, expected %v", name, got, tt.want)
		}
	}
}
