//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

// isthmus status tells how each rule stands, by its exit code too, and no values of Secrets.
func TestF4_StatusTellsHowRulesStand(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	p := e.Start(rules(ns, "apiVersion: example.io/v1, kind: Widget", "apiVersion: v1, kind: Secret, selector: {matchLabels: {of: test}}",
		"name: later, apiVersion: example.io/v1, kind: Nothing"))
	status := func(want int, args ...string) string {
		t.Helper()
		out, code := harness.Run(t, append([]string{"status", "--address", p.Address()}, args...)...)
		if code != want {
			t.Errorf("exit code %d, expected %d: %s", code, want, out)
		}
		return out
	}
	has := func(text string, words ...string) error {
		for _, word := range words {
			if !strings.Contains(text, word) {
				return fmt.Errorf("%q is not in %s", word, text)
			}
		}
		return nil
	}
	makeWidgets(e, ns, "one", "two")
	if err := has(status(2), "Widget-toHost", "active", "later", "waiting", "not served"); err != nil {
		t.Error(err)
	}
	const value = "marked-value"
	e.Remote.Create(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: taken, namespace: %s}\n", ns))
	e.Local.Create(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: taken, namespace: %s, labels: {of: test}}\nstringData: {k: %s}\n", ns, value))
	e.Eventually(func() error {
		return has(status(2), "Secret-toHost: last error", ns+"/taken", "was not created by this Isthmus", "FOREIGN")
	})
	text := status(2, "-o", "json")
	var document struct {
		Version string
		Rules   []struct {
			Name    string
			Objects map[string]int
			Latency *struct{ Count int }
		}
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil || document.Version != "v1" {
		t.Fatalf("the document: %v %s", err, text)
	}
	for _, r := range document.Rules {
		if r.Name == "Widget-toHost" && (r.Objects["in_step"] != 2 || r.Latency == nil || r.Latency.Count != 2) {
			t.Errorf("the rule: %+v", r)
		}
	}
	if strings.Contains(text+status(2), "\x1b") || strings.Contains(text, value) || strings.Contains(text, "bWFya2VkLXZhbHVl") {
		t.Errorf("colour in a pipe, or a Secret's value: %s", text)
	}
	p.ReconfigureOnly(rules(ns, "apiVersion: example.io/v1, kind: Widget"))
	inForce(e, p, 1)
	e.Local.Delete("secrets", ns, "taken")
	e.Eventually(func() error {
		if out, code := harness.Run(t, "status", "--address", p.Address()); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
	p.Stop()
	if err := has(status(1), "no isthmus answers at"); err != nil {
		t.Error(err)
	}
}
