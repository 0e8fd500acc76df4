package config

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
)

// What a reference to a kind becomes is told by all of its rules, in whatever order they stand.
func TestPlacements(t *testing.T) {
	const (
		out    = "- {name: out, apiVersion: v1, kind: ConfigMap, direction: toHost, selector: {matchLabels: {a: out}}}\n"
		shared = "- {name: shared, apiVersion: v1, kind: ConfigMap, direction: toHost, hostNamespace: monitoring, selector: {matchLabels: {a: shared}}}\n"
		argo   = "- {name: argo, apiVersion: v1, kind: ConfigMap, direction: toHost, hostNamespace: argocd, selector: {matchLabels: {a: argo}}}\n"
		copies = "- {name: copies, apiVersion: v1, kind: ConfigMap, direction: fromHost, targetNamespace: a, selector: {matchLabels: {a: copies}}}\n"
		mirror = "- {name: mirror, apiVersion: v1, kind: ConfigMap, direction: fromHost, mode: mirror, targetNamespace: a, selector: {matchLabels: {a: mirror}}}\n"
	)
	for name, tt := range map[string]struct {
		rules []string
		want  boundary.Placement
	}{
		"twins":                    {[]string{out}, boundary.Placement{}},
		"shared":                   {[]string{shared}, boundary.Placement{Shared: "monitoring"}},
		"in two namespaces":        {[]string{out, shared}, boundary.Placement{Roams: true}},
		"in three namespaces":      {[]string{out, shared, argo}, boundary.Placement{Roams: true}},
		"two shared and a mirror":  {[]string{shared, mirror, argo}, boundary.Placement{Roams: true}},
		"mirrored":                 {[]string{mirror}, boundary.Placement{Mirrored: true}},
		"twins beside a mirror":    {[]string{shared, mirror}, boundary.Placement{Shared: "monitoring"}},
		"twins beside copies":      {[]string{out, copies}, boundary.Placement{}},
		"a mirror beside copies":   {[]string{mirror, copies}, boundary.Placement{Mirrored: true}},
		"shared twins and copies":  {[]string{shared, copies}, boundary.Placement{Shared: "monitoring"}},
		"nothing that has a place": {[]string{copies}, boundary.Placement{}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				text := "version: v1\nnaming: VirtualCluster\nvirtualCluster: {name: shop, hostNamespace: vcluster-acme--shop}\nsyncResources:\n"
				for _, rule := range tt.rules {
					text += rule
				}
				c, err := Parse("f", []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				if have := c.placements()[schema.GroupKind{Kind: "ConfigMap"}]; have != tt.want {
					t.Errorf("%v: %+v, expected %+v", tt.rules, have, tt.want)
				}
				if len(tt.rules) > 1 {
					tt.rules[0], tt.rules[1] = tt.rules[1], tt.rules[0]
				}
			}
		})
	}
}
