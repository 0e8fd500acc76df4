//go:build unix

package installation

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// shell runs what a page says to type, in a folder of its own, with contexts that the page names.
type shell struct {
	t   *testing.T
	h   *harness.Hub
	dir string
	env []string
}

func newShell(t *testing.T, h *harness.Hub, contexts map[string]*harness.Side) *shell {
	t.Helper()
	s := &shell{t: t, h: h, dir: t.TempDir()}
	for name, target := range map[string]string{"isthmus": harness.Binary(t), "kubectl": h.Binaries().Path(controlplane.Kubectl)} {
		s.write("bin/.keep", "")
		if err := os.Symlink(target, filepath.Join(s.dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	var paths []string
	for context, side := range contexts {
		// As the administrator, under the page's name for the cluster.
		text := regexp.MustCompile(`\b`+side.Name()+`\b`).ReplaceAllString(read(t, side.Kubeconfig()), context)
		s.write(context+".kubeconfig", text)
		paths = append(paths, filepath.Join(s.dir, context+".kubeconfig"))
	}
	s.env = append(os.Environ(), "PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"), "HOME="+s.dir, "KUBECONFIG="+strings.Join(paths, ":"))
	return s
}

// write writes a file, in which the test's namespace takes the place of the page's.
func (s *shell) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(s.here(text)), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a script to its end, and returns what it printed.
func (s *shell) run(script string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "sh", "-e", "-c", s.here(script))
	cmd.Dir, cmd.Env = s.dir, s.env
	harness.Tie(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return string(out)
}

func (s *shell) here(text string) string { return strings.ReplaceAll(text, "fleet-system", s.h.ID) }

// blocks returns the fenced code blocks of a language, also those in lists.
func blocks(t *testing.T, page, language string) (all []string) {
	t.Helper()
	for _, part := range strings.Split(unindented(page), "```"+language+"\n")[1:] {
		text, _, ok := strings.Cut(part, "```")
		if !ok {
			t.Fatalf("a code block has no end: %.80s", part)
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		t.Fatalf("the page has no %s block", language)
	}
	return all
}

// unindented takes three spaces off each line that begins with them, as lists have them.
func unindented(page string) string { return regexp.MustCompile(`(?m)^   `).ReplaceAllString(page, "") }
