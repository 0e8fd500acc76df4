//go:build unix

package installation

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/test/harness"
)

// What docs/installations.md says to do on a member whose hub is lost takes away the one component, and neither another one of
// that hub nor what has only the hub's label.
func TestI4I6_TheRecipeForALostHub(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("the recipe takes jq, which is not there")
	}
	h := harness.NewHub(t)
	h.Reach(h.One, "one")
	other := spec{name: "small", component: h.ID + "-small", profile: "one", namespace: h.ID + "-small", manifests: []string{small(h.ID)}}
	h.Install(other.in(h))
	dead := h.Start()
	untilReady(h, "small")
	before := h.One.AllObjects()
	s := shopSpec(h, shop(h))
	h.Install(other.in(h) + "\n---\n" + s.in(h))
	untilReady(h, "shop")
	dead.Kill()
	_, section, _ := strings.Cut(read(t, "../../docs/installations.md"), "### A hub that is lost for good")
	section, _, _ = strings.Cut(section, "\n### ")
	sh := newShell(t, h, map[string]*harness.Side{"apac-1": h.One})
	lock := "isthmus-component-" + s.component
	for _, script := range blocks(t, section, "shell") {
		t.Log(sh.run(strings.NewReplacer("isthmus-component-knative-serving", lock, "isthmus-knative-serving", install.AnchorName(s.component),
			"installed-by=hub", "installed-by="+h.ID).Replace(script)))
	}
	if got := h.One.Get("configmaps", harness.IsthmusNamespace, lock).GetAnnotations()["isthmus.dev/release"]; got != "true" {
		t.Errorf("the lock is not released: %q", got)
	}
	h.One.Delete("configmaps", harness.IsthmusNamespace, lock)
	h.Eventually(func() error { // what it granted for the second component is not of the recipe
		for _, difference := range h.One.AllObjects().Since(before) {
			if !strings.Contains(difference, h.User()) {
				return errors.New(difference)
			}
		}
		return nil
	})
}
