//go:build unix

package harness

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ModuleFile reads a file of a module's version from the module cache, where it is put if need be.
func ModuleFile(t testing.TB, module, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(ModuleDir(t, module), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// ModuleDir returns the folder of a module's version in the module cache, where it is put if need be.
func ModuleDir(t testing.TB, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // outside our own module, whose go.sum need not know it
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("download %s: %v\n%s", module, err, out)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		t.Fatal(err)
	}
	return downloaded.Dir
}
