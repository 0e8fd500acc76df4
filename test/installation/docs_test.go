//go:build unix

package installation

import (
	"errors"
	"fmt"
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
