//go:build unix

package controller

import (
	"strings"
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

// lost is a RemoteCluster that nothing answers for.
const lost = `
apiVersion: v1
kind: Secret
metadata: {name: lost, namespace: isthmus-system}
stringData:
  kubeconfig: |
    {apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
     clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {token: t}}]}
---
apiVersion: isthmus.dev/v1alpha1
kind: RemoteCluster
metadata: {name: lost}
spec: {access: {kubeconfigSecretRef: {name: lost}}}
`

// says checks that a command ended with a code, and that its output has some texts.
func says(t *testing.T, out string, code, want int, texts ...string) {
	t.Helper()
	if code != want {
		t.Errorf("exit code %d, expected %d:\n%s", code, want, out)
	}
	for _, text := range texts {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), text) {
			t.Errorf("%q is missing in:\n%s", text, out)
		}
	}
}

// isthmus plan, explain and status tell of each remote, those that can't be used included; what a plan says is what happens.
func TestF1_EveryRemoteIsTold(t *testing.T) {
	f, west, east := unconsenting(t, crossing("widgets", ""))
	west.Offload("shop", selectedName+"till")
	west.Create(widget("shop", "one", allow, "{size: 1}"))
	west.Create(widget("shop", "kept", "", "{size: 1}"))

	out, code := west.Ask("plan", "--show-skipped")
	says(t, out, code, 2, "to east:", "ToRemote Widget shop/one till/one create-namespace + create", "ToRemote Widget shop/kept - skipped", "1 change, 1 skipped")
	out, code = west.Ask("explain", "widget/kept", "-n", "shop")
	says(t, out, code, 0, "to east:", "Rule: none takes it", "widgets: does not take it", "isthmus.dev/allow-reflection")

	process := west.Reflect()
	status := func(flags ...string) (string, int) {
		return harness.Run(t, append([]string{"status", "--address", process.Address()}, flags...)...)
	}
	f.Eventually(func() error { return is(west.Get(crossings, "", "widgets"), 1, "status", "inStep") })
	out, code = status()
	says(t, out, code, 0, "west, instance controller, reflection, isthmus", "local cluster https://", "to east: ready", "east cluster https://", "widgets Widget ToRemote active 1")
	if strings.Count(out, "west, instance") != 1 || strings.Count(out, "local cluster") != 1 {
		t.Errorf("the header is not there once:\n%s", out)
	}
	out, code = status("-o", "json")
	says(t, out, code, 0, `"controllers": [ "reflection" ]`, `"remoteID": "east"`, `"remotes": [`)
	out, code = west.Ask("plan", "-o", "json")
	says(t, out, code, 0, `"changes": false`, `"remote": "east"`, `"in step": 1`)

	west.Apply(lost)
	west.Cross(strings.Replace(crossing("gadgets", ""), "resource: widgets", "resource: gadgets", 1))
	west.Cross(crossing("again", ""))
	f.Eventually(func() error { return condition(west.Get(crossings, "", "again"), "Active", "False", "", "") })
	f.Eventually(func() error { return condition(west.Get(remotes, "", "lost"), "Reachable", "False", "", "") })
	out, code = status()
	says(t, out, code, 2, "Crossing again is refused: it selects the same objects as Crossing widgets", "to lost: not ready: its RemoteCluster can't be used: ConnectionRefused",
		"gadgets gadgets ToRemote waiting 0", "gadgets waits:", "widgets Widget ToRemote active 1")

	// The remote that nothing answers for is told, and the others are as if it were not there.
	west.Patch(widgets, "shop", "kept", "{metadata: {annotations: {isthmus.dev/allow-reflection: 'true'}}}")
	f.Eventually(func() error { return east.There(widgets, "till", "kept") })
	process.Stop()
	west.Patch(widgets, "shop", "one", "{spec: {size: 2}}")
	west.Delete(widgets, "shop", "kept")
	out, code = west.Ask("plan")
	says(t, out, code, 1, "Refused: Crossing again: it selects the same objects", "to lost: its RemoteCluster can't be used: ConnectionRefused",
		"ToRemote Widget shop/one till/one apply spec.size", "ToRemote Widget shop/kept till/kept delete", "ToRemote gadgets.example.io - - wait", "remote lost:")
	out, code = west.Ask("plan", "--remote", "east")
	says(t, out, code, 2, "2 change, 1 wait")
	if strings.Contains(out, "lost") {
		t.Errorf("another remote is told about:\n%s", out)
	}
	out, code = west.Ask("explain", "widgets", "one", "-n", "till", "--twin", "--remote", "east")
	says(t, out, code, 0, "to east:", "Source: shop/one on the local cluster", "Rule: widgets", "A run would: apply: spec.size")
	out, code = west.Ask("explain", "gadgets/one", "--remote", "east")
	says(t, out, code, 1, `no rule names the kind "gadgets"`, "gadgets.example.io waits:")
	out, code = west.Ask("plan", "--remote", "north")
	says(t, out, code, 1, `--remote "north": there is no such RemoteCluster`)
}
