//go:build unix

package controlplane_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
)

func TestBuild(t *testing.T) {
	// Not the user's cache of finished programs, but the compiler's own, so
	// that little more than linking is left to do.
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, strings.TrimSpace(string(value)))
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))

	t.Run("without a Go toolchain", func(t *testing.T) {
		t.Setenv("PATH", "")
		_, err := controlplane.Build(t.Context(), nil, controlplane.Etcd)
		if err == nil || !strings.Contains(err.Error(), "etcd must be compiled first, which needs the Go toolchain") {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("two at once", func(t *testing.T) {
		var wait sync.WaitGroup
		var progress [2]bytes.Buffer
		for i := range progress {
			wait.Go(func() {
				bins, err := controlplane.Build(t.Context(), &progress[i], controlplane.Etcd)
				if err != nil {
					t.Error(err)
				} else if _, err := os.Stat(bins.Path(controlplane.Etcd)); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		said := progress[0].String() + progress[1].String()
		if strings.Count(said, "built in") != 1 || !strings.Contains(said, "another process is building it") {
			t.Errorf("progress of two builds at once:\n%s", said)
		}
	})
	t.Run("a second time", func(t *testing.T) {
		t.Setenv("PATH", "") // what is built needs no toolchain
		var progress bytes.Buffer
		began := time.Now()
		bins, err := controlplane.Build(t.Context(), &progress, controlplane.Etcd)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second || progress.Len() > 0 {
			t.Errorf("a build with nothing to do took %s and said %q", took, progress.String())
		}
		leftovers, err := filepath.Glob(filepath.Join(bins.Dir, ".building-*"))
		if err != nil || len(leftovers) > 0 {
			t.Errorf("leftovers of the build: %v (%v)", leftovers, err)
		}
	})
	t.Run("an unknown component", func(t *testing.T) {
		if _, err := controlplane.Build(t.Context(), nil, "kube-proxy"); err == nil {
			t.Error("no error")
		}
	})
}
