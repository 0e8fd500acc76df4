//go:build unix

// Package image tests the images without a container engine: what the Dockerfile builds and copies, and that vCluster finds
// and starts its plugin.
package image

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

const root = "../.."

// The stages of the Dockerfile that are images.
const (
	plugin     = "vcluster-plugin"
	controller = "isthmus"
)

// instructions reads the Dockerfile: the instructions of one image's stage, of the stage that builds, and what is before
// all stages, without comments, a line each.
func instructions(t *testing.T, stage string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	current := ""
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if _, name, named := strings.Cut(line, " AS "); named && strings.HasPrefix(line, "FROM ") {
			current = name
		}
		if current == "" || current == "build" || current == stage {
			lines = append(lines, line)
		}
	}
	return lines
}

// only returns what a pattern's group matches in the one instruction that it fits.
func only(t *testing.T, lines []string, pattern string) (groups []string) {
	t.Helper()
	for _, line := range lines {
		if found := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(line); found != nil {
			if groups != nil {
				t.Fatalf("several instructions are like %s", pattern)
			}
			groups = found[1:]
		}
	}
	if groups == nil {
		t.Fatalf("no instruction is like %s: %q", pattern, lines)
	}
	return groups
}

// run runs a command in a folder and returns what it printed.
func run(t *testing.T, dir, input, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out.String(), errs.String())
	}
	return out.String()
}

// F5: the image's binary needs nothing of the container that vCluster copies it to, and answers vCluster there, also when
// neither cluster does.
func TestF5_TheImageOfThePlugin(t *testing.T) {
	lines := instructions(t, plugin)
	dir := t.TempDir()
	build := only(t, lines, `RUN (.* go build .*)`)[0]
	copied := only(t, lines, `COPY --from=build (\S+) (\S+)`)
	built, output := filepath.Join(dir, "built"), " -o "+copied[0]+" "
	if !strings.Contains(build, output) {
		t.Fatalf("%s is copied, but not what is built: %s", copied[0], build)
	}
	run(t, root, "", "sh", "-c", strings.Replace(build, output, " -o '"+built+"' ", 1))

	// The file system of the image, and what the init container of vCluster's chart does with it.
	image, plugins := filepath.Join(dir, "image"), filepath.Join(dir, "plugins")
	target := filepath.Join(image, copied[1])
	for _, folder := range []string{filepath.Dir(target), plugins} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(built, target); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "", "sh", "-c", "cp -r "+image+"/plugin "+plugins+"/isthmus")

	// vCluster takes folders, and starts the file "plugin" in each.
	binary := filepath.Join(plugins, "isthmus", "plugin")
	if info, err := os.Stat(binary); err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 != 0o111 {
		t.Fatalf("vCluster finds no plugin that everybody may execute: %v %v", info, err)
	}
	if runtime.GOOS == "linux" {
		file, err := elf.Open(binary)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for _, part := range file.Progs {
			if part.Type == elf.PT_INTERP {
				t.Error("it is linked to libraries that the container may not have")
			}
		}
	}
	files := map[string]string{
		"vcluster.yaml": "plugin: {isthmus: {version: v2, config: {version: v1, listen: '127.0.0.1:0', syncResources: [{apiVersion: v1, kind: Secret, direction: toHost}]}}}\n",
		"nowhere":       "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}], contexts: [{name: c, context: {cluster: c}}]}",
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	answers := run(t, root, "leader\nmutate {\nend\n", "go", "run", "./test/vclusterhost", "-plugin", binary, "-name", "shop", "-namespace", "vcluster-shop",
		"-config", filepath.Join(dir, "vcluster.yaml"), "-virtual", filepath.Join(dir, "nowhere"), "-host", filepath.Join(dir, "nowhere"))
	if !regexp.MustCompile(`^ok pid=\d+ \{\}\nok\nok mutated=false\nok\n$`).MatchString(answers) {
		t.Errorf("vCluster is answered %q", answers)
	}
}

// The image is made with the Go version of the module, has what the init container runs, and runs as nobody in particular.
func TestImageBases(t *testing.T) {
	lines := instructions(t, plugin)
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if version := only(t, lines, `ARG GO=golang:(\S+)`)[0]; language == nil || version != string(language[1]) {
		t.Errorf("it is built with Go %s, and go.mod wants %s", version, language)
	}
	only(t, lines, `ARG PLUGIN_BASE=busybox:stable`) // has sh and cp
	only(t, lines, `FROM \$\{PLUGIN_BASE\} AS vcluster-plugin`)
	only(t, lines, `USER ([1-9]\d*)`)
	ignored, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	for _, needed := range []string{"go.mod", "go.sum", "cmd", "internal"} {
		if strings.Contains(string(ignored), needed) {
			t.Errorf("%s does not reach the build: %s", needed, ignored)
		}
	}
}

// The controller's image holds what is built and nothing to log in with, and runs as nobody in particular; the chart's pods
// insist on that.
func TestImageOfTheController(t *testing.T) {
	lines := instructions(t, controller)
	only(t, lines, `ARG BASE=scratch`)
	only(t, lines, `FROM \$\{BASE\} AS isthmus`)
	built := only(t, lines, `COPY --from=build (/isthmus) (/isthmus)`)
	only(t, lines, `RUN .* go build .* -o `+built[0]+` .*`)
	only(t, lines, `ENTRYPOINT \["`+built[1]+`"\]`)
	only(t, lines, `USER ([1-9]\d*):([1-9]\d*)`)
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	// docker build without --target makes the last stage.
	if stages := regexp.MustCompile(`(?m)^FROM .* AS (\S+)$`).FindAllStringSubmatch(string(text), -1); len(stages) == 0 || stages[len(stages)-1][1] != controller {
		t.Errorf("the last stage is not the controller's: %q", stages)
	}
}
