package main

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	registry := strings.Join([]string{"quay", "io"}, ".")
	home := "/" + "root/go"
	tests := []struct{ name, path, content, want string }{
		{"clean", "x.md", "See k8s.io and quay.ioo, ./root/x and https://example.io/home/x.\n", ""},
		{"a host", "x.yaml", "a: b\nimage: " + registry + "/x/y\n", "x.yaml:2: names a registry's host"},
		{"a host in a URL", "x.md", "https://" + registry, "x.md:1: names a registry's host"},
		{"a path", "x.md", "one\ntwo \"" + home + "\"", "x.md:2: names a path of somebody's machine"},
		{"Kubernetes in our module", "go.mod", "require (\n\tk8s.io/kubernetes v1.2.3\n)\n", "go.mod:2: requires k8s.io/kubernetes"},
		{"Kubernetes in its own module", "controlplane/go.mod", "require k8s.io/kubernetes v1.2.3\n", ""},
		{"not formatted", "x.go", "package  x\n", "x.go:1: is not formatted"},
		{"not Go", "x.go", "pakcage x\n", "x.go:1: does not parse"},
		{"a merge", "x.md", "one\n" + strings.Repeat("<", 7) + " HEAD\ntwo\n", "x.md:2: has both sides of a merge"},
		{"a heading", "x.md", "one\n=======\n", ""},
		{"binary", "x.bin", "\x00" + registry, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(check(tt.path, []byte(tt.content)), "\n")
			if (tt.want == "") != (got == "") || !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, expected %q…", got, tt.want)
			}
		})
	}
}
