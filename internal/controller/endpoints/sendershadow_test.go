package endpoints

import (
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// What a slice becomes has a name of its own for each destination, and one that the API server takes, however long the slice's.
func TestE2_ShadowNames(t *testing.T) {
	long := strings.Repeat("a", maxName)
	fits := strings.Repeat("a", maxName-len(".one"))
	dotted := strings.Repeat("a", maxName-1-10-3) + strings.Repeat(".b-", 4) + "c"
	for _, tt := range []struct{ slice, destination, want string }{ // an empty want: shortened
		{"web-abcde", "one", "web-abcde.one"},
		{"web.v1", "one", "web.v1.one"},
		{fits, "one", fits + ".one"},
		{fits + "a", "one", ""},
		{long, "one", ""},
		{long, "two", ""},
		{dotted, "one", ""},
	} {
		got := shadowName(tt.slice, tt.destination)
		if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
			t.Errorf("%s for %s: %q: %v", tt.slice, tt.destination, got, problems)
		}
		if again := shadowName(tt.slice, tt.destination); again != got {
			t.Errorf("%s for %s: %q, then %q", tt.slice, tt.destination, got, again)
		}
		if whole := tt.slice + "." + tt.destination; tt.want != "" && got != tt.want || tt.want == "" && got == whole {
			t.Errorf("%s for %s: got %q, expected %q", tt.slice, tt.destination, got, tt.want)
		}
	}
	names := map[string]bool{}
	for _, slice := range []string{long, long[1:] + "b", fits + "a", "web.one", "web"} {
		for _, destination := range []string{"one", "two"} {
			names[shadowName(slice, destination)] = true
		}
	}
	if len(names) != 10 {
		t.Errorf("%d names for 5 slices and 2 destinations", len(names))
	}
}

func TestE1_WhichSlicesCross(t *testing.T) {
	slice := func(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
		s.Namespace, s.Name = "shop", "web-abcde"
		s.Labels = map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}
		change(s)
		return s
	}
	for name, tt := range map[string]struct {
		change func(*discoveryv1.EndpointSlice)
		want   bool
	}{
		"a Service's":           {func(*discoveryv1.EndpointSlice) {}, true},
		"IPv6":                  {func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }, true},
		"made by hand":          {func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelManagedBy) }, true},
		"names":                 {func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }, false},
		"no Service's":          {func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) }, false},
		"of an empty name":      {func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "" }, false},
		"made of what was sent": {func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = v1alpha1.EndpointsManager }, false},
		"a copy of ours":        {func(s *discoveryv1.EndpointSlice) { s.Labels[boundary.LabelOrigin] = "one" }, false},
		"without any label":     {func(s *discoveryv1.EndpointSlice) { s.Labels = nil }, false},
		"with a word of its own": {func(s *discoveryv1.EndpointSlice) {
			s.Annotations = map[string]string{"isthmus.dev/skip-reflection": "false"}
		}, true},
	} {
		if got := isSource(slice(tt.change)); got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if isSource(nil) {
		t.Error("one that is gone")
	}
}

// The labels of a node say which cluster its pods live on; two that differ say nothing that can be used.
func TestE2_ClusterOfANode(t *testing.T) {
	const ours, liqos = "isthmus.dev/remote-cluster-id", "liqo.io/remote-cluster-id"
	for _, tt := range []struct {
		labels       map[string]string
		want, errHas string
	}{
		{nil, "", ""},
		{map[string]string{"kubernetes.io/hostname": "n"}, "", ""},
		{map[string]string{"example.io/remote-cluster-id": "one"}, "", ""},
		{map[string]string{ours: "one"}, "one", ""},
		{map[string]string{liqos: "one"}, "one", ""},
		{map[string]string{ours: "one", liqos: "one"}, "one", ""},
		{map[string]string{ours: "", liqos: "one"}, "one", ""},
		{map[string]string{ours: "one", liqos: ""}, "one", ""},
		{map[string]string{ours: "", liqos: ""}, "", ""},
		{map[string]string{ours: "one", liqos: "two"}, "", "node n says that its pods live on one, and that they live on two"},
	} {
		node := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: tt.labels}}
		got, err := clusterOf(node)
		if got != tt.want || (err != nil) != (tt.errHas != "") || err != nil && !strings.Contains(err.Error(), tt.errHas) {
			t.Errorf("%v: got %q, %v", tt.labels, got, err)
		}
	}
}
