package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The code that is checked in is what the command makes.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	folder := filepath.Join("..", "pluginv2")
	files, err := generate(t.Context(), folder)
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for name, content := range files {
		have, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(have), string(content)); diff != "" {
			t.Errorf("%s: run go generate ./internal/vcluster:\n%s", name, diff)
		}
	}
}
