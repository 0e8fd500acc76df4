package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"sigs.k8s.io/yaml"
)

// plugin is what krew demands of a manifest.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Platforms        []struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			URI    string `json:"uri"`
			SHA256 string `json:"sha256"`
			Bin    string `json:"bin"`
			Files  []struct {
				From string `json:"from"`
				To   string `json:"to"`
			} `json:"files"`
		} `json:"platforms"`
	} `json:"spec"`
}

// The manifest that a release fills in is whole, and speaks of the archives that are there.
func TestManifest(t *testing.T) {
	out := t.TempDir()
	if err := run("v1.2.3", "https://example.io/downloads/", out, []string{runtime.GOOS + "/" + runtime.GOARCH}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "isthmus.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var p plugin
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name != "isthmus" ||
		p.Spec.Version != "v1.2.3" || p.Spec.ShortDescription == "" || len(p.Spec.ShortDescription) > 60 || p.Spec.Description == "" || len(p.Spec.Platforms) != 1 {
		t.Fatalf("%+v", p)
	}
	platform := p.Spec.Platforms[0]
	name := "kubectl-isthmus_v1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	packed, err := os.ReadFile(filepath.Join(out, name))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(packed); platform.SHA256 != hex.EncodeToString(sum[:]) || platform.URI != "https://example.io/downloads/"+name {
		t.Errorf("%+v", platform)
	}
	if platform.Selector.MatchLabels["os"] != runtime.GOOS || platform.Selector.MatchLabels["arch"] != runtime.GOARCH {
		t.Errorf("%+v", platform)
	}
	held := map[string]int64{}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		held[header.Name] = header.Mode
	}
	if held[platform.Bin] != 0o755 {
		t.Errorf("the archive holds %v", held)
	}
	for _, file := range platform.Files {
		if _, ok := held[file.From]; !ok || file.To != "." {
			t.Errorf("the archive holds %v, the manifest asks for %+v", held, file)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range [][2]string{{"1.2.3", "https://example.io"}, {"v1.2", "https://example.io"}, {"v1.2.3", "example.io"}, {"v1.2.3", ""}} {
		if err := run(c[0], c[1], t.TempDir(), nil); err == nil {
			t.Errorf("%v is no error", c)
		}
	}
}
