//go:build unix

package installation

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controller/link/linktest"
)

// I5, I7: why it is not known where an Installation goes is told by a reason each, also of one that is being deleted: it
// waits, and all is removed as soon as that can be done. The member is the hub itself, behind a proxy.
func TestI5_WhereAnInstallationGoes(t *testing.T) {
	const namespace, there = "resolved", "resolved-there"
	dir := t.TempDir()
	token, plugin, file := filepath.Join(dir, "token"), filepath.Join(dir, "plugin"), filepath.Join(dir, "providers.json")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(plugin, "#!/bin/sh\nset -e\n[ -e "+token+" ] || { echo there is no token yet >&2; exit 1; }\n"+
		`printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$(cat `+token+`)"`)
	linktest.WriteProviders(t, file, linktest.Provider("plugin", "unused"))
	providers, err := access.OpenProviderFile(file)
	if err != nil {
		t.Fatal(err)
	}
	e := newEnvWith(t, "hub-r", providers)
	profiles := linktest.Profiles{T: t, Cluster: e.cp, Version: "v1alpha1", Namespace: namespace}
	profiles.Serve()
	proxy := linktest.NewProxy(t, e.cp)
	way := func(provider string) map[string]any {
		return linktest.Way(provider, e.cp, map[string]any{"server": proxy.URL()}, map[string]any{})
	}
	const resolved = v1alpha1.ConditionTargetClusterResolved

	e.installs(namespace, namespace, "destination: {clusterProfileRef: {name: member, namespace: "+namespace+"}, namespace: "+there+"}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: red}}")
	e.stands(namespace, resolved, "False", v1alpha1.ReasonProfileMissing, "ClusterProfile resolved/member does not exist")
	e.stands(namespace, "Ready", "False", v1alpha1.ReasonProfileMissing)
	profiles.Set("member", linktest.Ways(way("another")))
	e.stands(namespace, resolved, "False", v1alpha1.ReasonAccess, "has the access providers another")
	profiles.Set("member", linktest.Ways(way("plugin")))
	e.stands(namespace, resolved, "False", v1alpha1.ReasonPlugin, "it says: there is no token yet")
	linktest.Apply(t, e.cp, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: isthmus, namespace: %[1]s}]}`, namespace))
	write(token, linktest.NewAccount(t, e.cp, namespace, "isthmus").Token)
	e.stands(namespace, resolved, "True", v1alpha1.ReasonReached)
	e.stands(namespace, "Ready", "True", v1alpha1.ReasonReady)

	profiles.Set("member", linktest.Unhealthy("Down", "no etcd", way("plugin")))
	e.stands(namespace, resolved, "False", v1alpha1.ReasonUnhealthy, "Down: no etcd")
	e.stands(namespace, v1alpha1.ConditionApplied, "Unknown", v1alpha1.ReasonTargetNotResolved)
	profiles.Set("member", linktest.Ways(way("plugin")))
	e.stands(namespace, "Ready", "True", v1alpha1.ReasonReady)
	proxy.Stop()
	e.stands(namespace, resolved, "False", v1alpha1.ReasonRefused, "connection refused")

	e.remove(namespace)
	e.stands(namespace, "Ready", "False", v1alpha1.ReasonRefused, "What was installed can't be removed", v1alpha1.ReleaseAnnotation)
	profiles.Delete("member")
	e.stands(namespace, "Ready", "False", v1alpha1.ReasonProfileMissing, "ClusterProfile resolved/member does not exist", v1alpha1.ReleaseAnnotation)
	if _, err := e.get("v1/ConfigMap", there, "settings"); err != nil {
		t.Errorf("it is not there any more, although the member could not be reached: %v", err)
	}
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	profiles.Set("member", linktest.Ways(way("plugin")))
	e.gone("isthmus.dev/v1alpha1/Installation", namespace, "it")
	e.gone("v1/Namespace", "", there)
}
