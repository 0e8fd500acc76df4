package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse: whatever the text, Parse returns a configuration or faults with positions inside the text, in order.
func FuzzParse(f *testing.F) {
	for _, tt := range strictCases {
		if len(tt.text) < 10_000 {
			f.Add([]byte(tt.text))
		}
	}
	for _, tt := range slices.Concat(checkCases, virtualCases) {
		f.Add([]byte(tt.text))
	}
	examples, err := filepath.Glob("../../examples/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range examples {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err == nil {
			checkConfig(t, c)
			return
		}
		var all Errors
		if c != nil || !errors.As(err, &all) || len(all) == 0 {
			t.Fatalf("config %v, error %#v", c, err)
		}
		if lines := strings.Count(err.Error(), "\n") + 1; lines != len(all) {
			t.Errorf("%d lines for %d faults:\n%v", lines, len(all), err)
		}
		if !utf8.ValidString(err.Error()) {
			t.Errorf("not UTF-8: %q", err)
		}
		last := position{1, 1}
		for _, e := range all {
			at := position{e.Line, e.Column}
			if at.column < 1 || at.line < last.line || at.line == last.line && at.column < last.column || at.line > len(data)+1 {
				t.Errorf("position %v after %v: %v", at, last, e)
			}
			last = at
		}
	})
}

// checkConfig checks what users of a Config rely on.
func checkConfig(t *testing.T, c *Config) {
	names := map[string]bool{}
	for _, r := range c.Rules {
		if r.Name == "" || names[r.Name] || r.Kind.Kind == "" || r.Kind.Version == "" || r.Selector == nil || r.Workers < 1 || r.Direction == "" || r.Policy == "" || r.OnRemoval == "" {
			t.Errorf("incomplete rule: %+v", r)
		}
		names[r.Name] = true
		own := c.VirtualCluster.HostNamespace == ""
		if own && c.Namespaces == nil && r.Namespaces.Admits("kube-system") || isSystemNamespace(r.HostNamespace) || isSystemNamespace(c.VirtualCluster.HostNamespace) {
			t.Errorf("rule %s may write to a namespace that starts with kube-", r.Name)
		}
		if own && r.HostNamespace+r.TenantProject != "" {
			t.Errorf("rule %s belongs to a virtual cluster: %+v", r.Name, r)
		}
	}
	if c.MassDeletion == "" || c.LogLevel == "" || c.Namespaces != nil && len(c.Namespaces) == 0 {
		t.Errorf("incomplete configuration: %+v", c)
	}
}
