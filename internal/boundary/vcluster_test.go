package boundary

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

var acme = VirtualCluster{Name: "acme", HostNamespace: "host-acme"}

// The expected values were worked out from the rules with another implementation of SHA-256.
func TestN3_VirtualClusterNames(t *testing.T) {
	const (
		a60 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		n49 = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
		f60 = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
	)
	dotAt52 := a60[:51] + ".b"
	tests := []struct{ what, got, want string }{
		{"short", acme.HostName("shop", "web"), "web-x-shop-x-acme"},
		{"dots stay", acme.HostName("shop", "web.example.io"), "web.example.io-x-shop-x-acme"},
		{"63 characters", acme.HostName("shop", n49), n49 + "-x-shop-x-acme"},
		{"64 characters", acme.HostName("shop", n49+"n"), n49 + "n-x-1b810bebee"},
		{"long", acme.HostName("shop", a60), a60[:52] + "-ead0ee802c"},
		{"cut after a dot", acme.HostName("shop", dotAt52), a60[:51] + "-b0eac5fb90"},
		{"no name", acme.HostName("shop", ""), ""},
		{"ambiguous by design", acme.HostName("c", "a-x-b"), acme.HostName("b-x-c", "a")},

		{"cluster-scoped", acme.HostNameCluster("fast"), "vcluster-fast-x-host-acme-x-acme"},
		{"cluster-scoped, long", acme.HostNameCluster(f60), "vcluster-" + f60[:43] + "-47d86e2ab7"},
		{"cluster-scoped, no name", acme.HostNameCluster(""), ""},

		{"shared", acme.SharedName("shop", "web"), "web-x-shop-x-acme-0a9a5b561f"},
		{"shared, other host namespace", VirtualCluster{"acme", "host-other"}.SharedName("shop", "web"), "web-x-shop-x-acme-df320597fc"},
		{"shared, -x- in the name", acme.SharedName("c", "a-x-b"), "a-x-b-x-c-x-acme-05e109e9e0"},
		{"shared, -x- in the namespace", acme.SharedName("b-x-c", "a"), "a-x-b-x-c-x-acme-306d0a7dc5"},
		{"shared, long", acme.SharedName("shop", a60), a60[:52] + "-1083b948be"},
		{"shared, cut after a dot", acme.SharedName("shop", dotAt52), a60[:51] + "-36255872e3"},
		{"shared, no name", acme.SharedName("shop", ""), ""},

		{"marker", acme.Marker(), "acme"},
		{"marker, cluster-scoped", acme.MarkerCluster(), "host-acme-x-acme"},
		{
			"marker, cluster-scoped, long", VirtualCluster{strings.Repeat("v", 30), strings.Repeat("h", 40)}.MarkerCluster(),
			strings.Repeat("h", 40) + "-x-vvvvvvvvv-02b0fb260a",
		},
		{"marker, shared", acme.MarkerShared(), "host-acme"},

		{"label", acme.LabelKey("app"), "app"},
		{"label with a prefix", acme.LabelKey("vcluster.loft.sh/other"), "vcluster.loft.sh/other"},
		{"label release", acme.LabelKey("release"), "vcluster.loft.sh/label-acme-x-a4d451ec23"},
		{"label namespace", acme.LabelKey("vcluster.loft.sh/namespace"), "vcluster.loft.sh/label-acme-x-101dcd4e86"},
		{"label managed-by", acme.LabelKey("vcluster.loft.sh/managed-by"), "vcluster.loft.sh/label-acme-x-e5f1b28ab2"},
		{"label controlled-by", acme.LabelKey("vcluster.loft.sh/controlled-by"), "vcluster.loft.sh/label-acme-x-2080cec00f"},
		{
			"label, long virtual cluster", VirtualCluster{Name: strings.Repeat("v", 28)}.LabelKey("release"),
			"vcluster.loft.sh/label-vvvvvvvvvvvvvvvvvvvvvvvvvvvv--1d269f886b",
		},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got  %s\nwant %s", tt.what, tt.got, tt.want)
		}
	}
}

func TestP1_VirtualClusterLabels(t *testing.T) {
	source := map[string]string{
		"app": "web", "release": "r1", LabelVClusterNamespace: "forged", LabelVClusterManagedBy: "forged",
		acme.LabelKey("release"): "forged", acme.LabelKey(LabelVClusterControlledBy): "forged",
	}
	common := map[string]string{
		"app": "web", "vcluster.loft.sh/label-acme-x-a4d451ec23": "r1", "vcluster.loft.sh/label-acme-x-101dcd4e86": "forged",
		"vcluster.loft.sh/label-acme-x-e5f1b28ab2": "forged", "vcluster.loft.sh/controlled-by": "isthmus",
	}
	and := func(more map[string]string) map[string]string {
		for k, v := range common {
			more[k] = v
		}
		return more
	}
	before := maps.Clone(source)
	for _, tt := range []struct {
		what      string
		got, want map[string]string
	}{
		{"namespaced", acme.Labels(source, "shop"), and(map[string]string{
			"vcluster.loft.sh/managed-by": "acme", "vcluster.loft.sh/namespace": "shop",
		})},
		{"cluster-scoped", acme.Labels(source, ""), and(map[string]string{"vcluster.loft.sh/managed-by": "host-acme-x-acme"})},
		{"shared", acme.SharedLabels(source, "shop"), and(map[string]string{
			"vcluster.loft.sh/managed-by": "host-acme", "vcluster.loft.sh/namespace": "shop",
		})},
		{"none", acme.Labels(nil, "shop"), map[string]string{
			"vcluster.loft.sh/managed-by": "acme", "vcluster.loft.sh/namespace": "shop", "vcluster.loft.sh/controlled-by": "isthmus",
		}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.what, diff)
		}
	}
	if diff := cmp.Diff(before, source); diff != "" {
		t.Errorf("the source's labels were changed:\n%s", diff)
	}
}

func TestP1_VirtualClusterAnnotations(t *testing.T) {
	got := acme.Annotations(widgetGVK, types.NamespacedName{Namespace: "shop", Name: "blue"}, "uid-blue",
		types.NamespacedName{Namespace: "host-acme", Name: "blue-x-shop-x-acme"})
	want := map[string]string{
		"vcluster.loft.sh/object-name": "blue", "vcluster.loft.sh/object-namespace": "shop", "vcluster.loft.sh/object-uid": "uid-blue",
		"vcluster.loft.sh/object-kind": "example.io/v1, Kind=Widget", "vcluster.loft.sh/object-host-name": "blue-x-shop-x-acme",
		"vcluster.loft.sh/object-host-namespace": "host-acme",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("namespaced: -want +got:\n%s", diff)
	}
	got = acme.Annotations(schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"}, types.NamespacedName{Name: "disk"}, "uid-disk",
		types.NamespacedName{Name: "vcluster-disk-x-host-acme-x-acme"})
	want = map[string]string{
		"vcluster.loft.sh/object-name": "disk", "vcluster.loft.sh/object-uid": "uid-disk", "vcluster.loft.sh/object-kind": "/v1, Kind=PersistentVolume",
		"vcluster.loft.sh/object-host-name": "vcluster-disk-x-host-acme-x-acme",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cluster-scoped: -want +got:\n%s", diff)
	}
}

// vclusterName draws names of objects and namespaces that look like names put together, some of them long.
func vclusterName(dots bool) *rapid.Generator[string] {
	joints := []string{"-x-", "-"}
	if dots {
		joints = append(joints, ".")
	}
	return rapid.Custom(func(t *rapid.T) string {
		name := rapid.SampledFrom([]string{"a", "b", "x"}).Draw(t, "first")
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			part := rapid.SampledFrom([]string{"a", "b", "x", "acme", strings.Repeat("c", 20), strings.Repeat("d", 47)}).Draw(t, "part")
			if next := name + rapid.SampledFrom(joints).Draw(t, "joint") + part; dots || len(next) <= 63 {
				name = next
			}
		}
		return name
	})
}

func TestN1_NamesAreValidAndTellObjectsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(i string) (namespace, name string) {
			return vclusterName(false).Draw(t, "namespace "+i), vclusterName(true).Draw(t, "name "+i)
		}
		clusters := []VirtualCluster{acme, {"acme", "host-x-acme"}, {"x-acme", "host"}, {strings.Repeat("v", 50), "host"}}
		ns1, name1 := draw("1")
		ns2, name2 := draw("2")
		v1, v2 := rapid.SampledFrom(clusters).Draw(t, "cluster 1"), rapid.SampledFrom(clusters).Draw(t, "cluster 2")

		for _, name := range []string{v1.HostName(ns1, name1), v1.SharedName(ns1, name1), v1.HostNameCluster(name1)} {
			if len(name) > 63 {
				t.Errorf("%s has %d characters", name, len(name))
			}
			if errs := validation.IsDNS1123Subdomain(name); errs != nil {
				t.Errorf("%s is no valid name: %s", name, errs)
			}
			if !strings.Contains(name1, ".") {
				if errs := validation.IsDNS1123Label(name); errs != nil {
					t.Errorf("%s is no valid label: %s", name, errs)
				}
			}
		}
		again := VirtualCluster{Name: strings.Clone(v1.Name), HostNamespace: strings.Clone(v1.HostNamespace)}
		if again.HostName(ns1, name1) != v1.HostName(ns1, name1) || again.SharedName(ns1, name1) != v1.SharedName(ns1, name1) {
			t.Error("another name for the same object")
		}
		if v1.SharedName(ns1, name1) == v2.SharedName(ns2, name2) && (v1 != v2 || ns1 != ns2 || name1 != name2) {
			t.Errorf("%s/%s of %v and %s/%s of %v share the name %s", ns1, name1, v1, ns2, name2, v2, v1.SharedName(ns1, name1))
		}
		// vCluster's own names meet only where they are put together alike.
		if alike := name1+"-x-"+ns1 == name2+"-x-"+ns2; (v1.HostName(ns1, name1) == v1.HostName(ns2, name2)) != alike {
			t.Errorf("%s/%s and %s/%s: %s, %s", ns1, name1, ns2, name2, v1.HostName(ns1, name1), v1.HostName(ns2, name2))
		}
	})
}

// However -x- splits what is put together, shared names differ.
func TestN1_SharedNamesOfEverySplitDiffer(t *testing.T) {
	parts := strings.Split("a-x-b-x-c-x-d-x-e", "-x-")
	host, shared := map[string]bool{}, map[string]bool{}
	for i := 1; i < len(parts); i++ {
		for j := i + 1; j < len(parts); j++ {
			name, namespace := strings.Join(parts[:i], "-x-"), strings.Join(parts[i:j], "-x-")
			v := VirtualCluster{Name: strings.Join(parts[j:], "-x-"), HostNamespace: "host"}
			host[v.HostName(namespace, name)] = true
			if got := v.SharedName(namespace, name); shared[got] {
				t.Errorf("%s/%s of %v has a name that another has: %s", namespace, name, v, got)
			} else {
				shared[got] = true
			}
		}
	}
	if len(host) != 1 || len(shared) != 6 {
		t.Errorf("%d host names and %d shared names, want 1 (ambiguous by design) and 6", len(host), len(shared))
	}
}
