//go:build unix

package installation

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

// The example whose manifests stand in it, and the local settings of it: the image, and who is bound.
func TestI1I5_TheAgentExample(t *testing.T) {
	h := harness.NewHub(t)
	h.Own("agent-system")
	h.Reach(h.One, "apac-1")
	before := h.One.AllObjects()
	h.Install(strings.ReplaceAll(read(t, "../../examples/installations/agent.yaml"), "fleet-system", h.ID))
	h.Start()
	untilReady(h, "agent-apac-1")
	if err := errors.Join(owned(h, h.One, "agent-apac-1"), available(h.One, "agent-system", 1),
		holds(h.One, "clusterrolebindings.rbac.authorization.k8s.io", "", "agent", "[map[kind:ServiceAccount name:agent namespace:agent-system]]", "subjects")); err != nil {
		t.Error(err)
	}
	if text := fmt.Sprint(h.One.Get(deployments, "agent-system", "agent").Object["spec"]); !strings.Contains(text, "example.io/agent:v2") {
		t.Errorf("the image is another one: %s", text)
	}
	uninstall(h, "agent-apac-1", h.One, before)
}

// The access provider that docs/access.md shows prints what is expected of it, and says what is wrong.
func TestTheAccessProviderOfThePage(t *testing.T) {
	script := blocks(t, read(t, "../../docs/access.md"), "sh")[0]
	s := &shell{t: t, dir: t.TempDir(), h: &harness.Hub{ID: "fleet-system"}}
	s.write("static-token", script)
	s.write("tokens/paris", "one")
	run := func(info string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(s.dir, "static-token"))
		cmd.Env = []string{"PATH=/usr/bin:/bin", "TOKENS=" + filepath.Join(s.dir, "tokens"), "KUBERNETES_EXEC_INFO=" + info}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const info = `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"https://paris","config":{"clusterName":"paris"}},"interactive":false}}`
	if out, err := run(info); err != nil || !strings.Contains(out, `"token": "one"`) || harness.Parse(t, out).GetKind() != "ExecCredential" {
		t.Errorf("%v: %s", err, out)
	}
	for _, bad := range []string{strings.ReplaceAll(info, `"paris"`, `"rome"`), "{}"} {
		if out, err := run(bad); err == nil || out == "" {
			t.Errorf("%s: %v: %s", bad, err, out)
		}
	}
}
