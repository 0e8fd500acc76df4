// Command krew builds the archives of the kubectl plugin and the manifest by which krew installs them.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed isthmus.yaml
var manifest string

// archive is one platform's archive.
type archive struct{ OS, Arch, Name, Binary, SHA256 string }

func main() {
	version := flag.String("version", "", "the version, like v1.2.3 (required)")
	url := flag.String("url", "", "the address under which the archives will be (required)")
	out := flag.String("o", "bin/krew", "the folder to write to")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "what to build for, as os/arch")
	flag.Parse()
	_ = os.Setenv("CGO_ENABLED", "0") // fails only for names that are none
	if err := run(*version, *url, *out, strings.Split(*platforms, ","), "-trimpath", "-ldflags=-s -w"); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// run writes an archive a platform, built with flags, and the manifest of all.
func run(version, url, out string, platforms []string, flags ...string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("-version %q: expected one like v1.2.3", version)
	}
	if !strings.HasPrefix(url, "https://") {
		return fmt.Errorf("-url %q: expected the https address under which the archives will be", url)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	content := struct {
		Version, URL string
		Archives     []archive
	}{version, strings.TrimSuffix(url, "/"), nil}
	for _, platform := range platforms {
		a, err := build(version, platform, out, flags)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		content.Archives = append(content.Archives, a)
	}
	var filled bytes.Buffer
	if err := template.Must(template.New("manifest").Option("missingkey=error").Parse(manifest)).Execute(&filled, content); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "isthmus.yaml"), filled.Bytes(), 0o644)
}

// build builds the plugin for a platform and packs it with the license.
func build(version, platform, out string, flags []string) (archive, error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return archive{}, errors.New("expected os/arch")
	}
	a := archive{OS: system, Arch: arch, Name: fmt.Sprintf("kubectl-isthmus_%s_%s_%s.tar.gz", version, system, arch), Binary: "kubectl-isthmus"}
	if system == "windows" {
		a.Binary += ".exe"
	}
	dir, err := os.MkdirTemp("", "krew-")
	if err != nil {
		return a, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, a.Binary)
	cmd := exec.Command("go", append(append([]string{"build", "-o", binary}, flags...), "isthmus.dev/isthmus/cmd/isthmus")...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch)
	if said, err := cmd.CombinedOutput(); err != nil {
		return a, fmt.Errorf("%w\n%s", err, said)
	}
	packed, err := pack(binary)
	if err != nil {
		return a, err
	}
	sum := sha256.Sum256(packed)
	a.SHA256 = hex.EncodeToString(sum[:])
	return a, os.WriteFile(filepath.Join(out, a.Name), packed, 0o644)
}

// pack returns the archive of a binary; equal content makes equal archives.
func pack(binary string) ([]byte, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the license: %w", err)
	}
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	files := tar.NewWriter(compressed)
	err = errors.Join(add(files, binary, 0o755), add(files, filepath.Join(strings.TrimSpace(string(root)), "LICENSE"), 0o644), files.Close(), compressed.Close())
	return packed.Bytes(), err
}

func add(files *tar.Writer, path string, mode int64) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := files.WriteHeader(&tar.Header{Name: filepath.Base(path), Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err = files.Write(content)
	return err
}
