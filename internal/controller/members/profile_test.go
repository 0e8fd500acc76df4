//go:build unix

package members

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/link/linktest"
	"isthmus.dev/isthmus/internal/controlplane"
)

// I5, I7: a ClusterProfile and all that leads to its cluster are followed: what changes is used at once, and what is wrong is
// named. The cluster stays one object all the while.
func TestI5_MemberIsFollowed(t *testing.T) {
	var kubeconfig string
	e := newEnv(t, func(e *env) {
		linktest.BuildPlugins(t, e.dir, linktest.SecretReader, linktest.KubeconfigSecretReader)
		kubeconfig = linktest.PluginKubeconfig(t, e.hub, e.dir, "plugins", "fleet-system")
		linktest.WriteProviders(t, e.file(), linktest.Provider(linktest.SecretReader, kubeconfig))
	})
	one, two := controlplane.Shared(t, "one"), controlplane.Shared(t, "two")
	reader := func(cluster *controlplane.Cluster, change map[string]any, secret string) map[string]any {
		return linktest.Way(linktest.SecretReader, cluster, change, map[string]any{"clusterName": secret})
	}

	if m := e.members.Get(ref("apac-1")); m.Reason != v1alpha1.ReasonConnecting || m.Reached {
		t.Errorf("not asked for: %+v", m)
	}
	e.want("apac-1")
	e.becomes("apac-1", v1alpha1.ReasonProfileMissing, "ClusterProfile fleet-system/apac-1 does not exist")
	e.Set("apac-1", linktest.Ways(linktest.Way(linktest.KubeconfigSecretReader, one, nil, map[string]any{"name": "whole", "key": "value"})))
	e.becomes("apac-1", v1alpha1.ReasonAccess, "none of which is in the file")
	first := e.account(one, "first", "spoke")
	e.Set("apac-1", linktest.Ways(reader(one, nil, "spoke")))
	member := e.reached("apac-1", one)
	if _, err := member.Cluster.UID(member.Pin(context.Background())); err != nil {
		t.Errorf("pinned to the server that it has: %v", err)
	}

	// The token is replaced, and the former one ends: no request fails.
	second := e.account(one, "second", "spoke")
	first.Revoke(t)
	for range 3 {
		if _, err := member.Cluster.UID(context.Background()); err != nil {
			t.Fatal(err)
		}
	}

	// The endpoint, and the certificate authority.
	proxy := linktest.NewProxy(t, one)
	e.Set("apac-1", linktest.Ways(reader(one, map[string]any{"server": proxy.URL()}, "spoke")))
	e.eventually(func() error {
		if m := e.members.Get(ref("apac-1")); m.Server != proxy.URL() {
			return fmt.Errorf("it is reached at %s", m.Server)
		}
		return nil
	})
	if _, err := member.Cluster.UID(member.Pin(context.Background())); err == nil {
		t.Error("a request that was pinned to the former server was sent to another one")
	}
	e.reached("apac-1", one)
	other := base64.StdEncoding.EncodeToString(linktest.CA(two.Config()))
	e.Set("apac-1", linktest.Ways(reader(one, map[string]any{"certificate-authority-data": other}, "spoke")))
	e.becomes("apac-1", v1alpha1.ReasonTLS, "certificate")

	// The provider, which the provider file has to have first; and with it the token.
	third := linktest.NewAccount(t, one, "accounts", "third")
	linktest.Apply(t, e.hub, fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: whole, namespace: fleet-system}, data: {value: %s}}", base64.StdEncoding.EncodeToString([]byte(third.Kubeconfig()))))
	whole := linktest.Way(linktest.KubeconfigSecretReader, one, nil, map[string]any{"name": "whole", "key": "value"})
	e.Set("apac-1", linktest.Ways(whole))
	e.becomes("apac-1", v1alpha1.ReasonAccess, "none of which is in the file")
	linktest.WriteProviders(t, e.file(), linktest.Provider(linktest.SecretReader, kubeconfig), linktest.Provider(linktest.KubeconfigSecretReader, kubeconfig))
	// Whoever else looks at the same file may see the change first.
	e.eventually(func() error {
		if _, err := e.members.o.Providers.Look(); err != nil {
			return err
		}
		if n := len(e.members.o.Providers.Providers().List); n != 2 {
			return fmt.Errorf("the file has %d providers", n)
		}
		return nil
	})
	second.Revoke(t)
	e.reached("apac-1", one)

	// Another cluster behind the profile is told by its UID.
	e.account(two, "spoke", "elsewhere")
	e.Set("apac-1", linktest.Ways(reader(two, nil, "elsewhere")))
	e.eventually(func() error {
		if m := e.members.Get(ref("apac-1")); !m.Reached || m.UID != string(two.UID()) {
			return fmt.Errorf("%+v", m)
		}
		return nil
	})

	// A control plane that is called unhealthy is waited for; a profile that is deleted is named, and comes back.
	e.Set("apac-1", linktest.Unhealthy("Down", "no etcd", whole))
	e.becomes("apac-1", v1alpha1.ReasonUnhealthy, "ClusterProfile fleet-system/apac-1: its condition ControlPlaneHealthy is False: Down: no etcd")
	e.Set("apac-1", linktest.Ways(whole))
	e.reached("apac-1", one)
	e.Delete("apac-1")
	e.becomes("apac-1", v1alpha1.ReasonProfileMissing, "fleet-system/apac-1")
	e.Set("apac-1", linktest.Ways(whole))
	if m := e.reached("apac-1", one); m.Cluster != member.Cluster {
		t.Error("another Cluster than before")
	}
	for _, token := range []string{first.Token, second.Token, third.Token} {
		if strings.Contains(e.log.String(), token) {
			t.Error("a token was logged")
		}
	}
	e.members.Want(nil)
	if m := e.members.Get(ref("apac-1")); m.Cluster != nil || m.Reached {
		t.Errorf("not asked for any more: %+v", m)
	}
}

// I5, I7: a member whose connections break is told of without being asked by anyone, and is reached again by itself; that one
// request failed is not told.
func TestI7_UnreachableMemberIsNoticed(t *testing.T) {
	e := newEnv(t, func(e *env) {
		linktest.BuildPlugins(t, e.dir, linktest.SecretReader)
		linktest.WriteProviders(t, e.file(), linktest.Provider(linktest.SecretReader, linktest.PluginKubeconfig(t, e.hub, e.dir, "plugins", "fleet-system")))
	})
	one := controlplane.Shared(t, "one")
	proxy := linktest.NewProxy(t, one)
	e.account(one, "noticed", "noticed")
	e.Set("noticed", linktest.Ways(linktest.Way(linktest.SecretReader, one, map[string]any{"server": proxy.URL()}, map[string]any{"clusterName": "noticed"})))
	e.want("noticed")
	member := e.reached("noticed", one)
	e.watching(member)

	e.mu.Lock()
	before := len(e.told[ref("noticed")])
	e.mu.Unlock()
	failing, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	if _, err := member.Cluster.UID(failing); err == nil {
		t.Fatal("no failure")
	}
	e.eventually(func() error { // it was asked, and answered
		if h := member.Cluster.Health(); !h.Reached {
			return errors.New("not healthy again")
		}
		return nil
	})
	e.mu.Lock()
	if told := e.told[ref("noticed")][before:]; slices.Contains(told, v1alpha1.ReasonTimeout) {
		t.Errorf("a single failure was told: %v", told)
	}
	e.mu.Unlock()

	proxy.Stop()
	m := e.becomes("noticed", v1alpha1.ReasonRefused, "connection refused")
	if m.UID != string(one.UID()) {
		t.Errorf("it is forgotten who it is: %+v", m)
	}
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	e.reached("noticed", one)
	mend := proxy.Hang()
	e.becomes("noticed", v1alpha1.ReasonTimeout, "")
	mend()
	e.reached("noticed", one)
	if got := Reach(context.Background(), e.members.o, map[types.NamespacedName]bool{ref("noticed"): true, ref("nowhere"): true}); !got[ref("noticed")].Reached ||
		got[ref("noticed")].UID != m.UID || got[ref("nowhere")].Reason != v1alpha1.ReasonProfileMissing {
		t.Errorf("asked once: %+v", got)
	}
}

// F1: a plugin that hangs is told of, and delays no other member, although both are of one provider. What a profile says
// reaches the plugin of its own cluster alone, through all changes.
func TestF1_HangingPluginDelaysNoOther(t *testing.T) {
	e := newEnv(t, func(e *env) {
		writeScript(t, filepath.Join(e.dir, "plugin"), `echo "$* $MINE" >> "$DIR/$1.ran"
while [ -e "$DIR/$1.hangs" ]; do echo waiting for a login >&2; sleep 0.2; done
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$(cat "$DIR/$1.token")"
`)
		linktest.WriteProviders(t, e.file(), map[string]any{"name": "script", "profileSourcedCLIArgsPolicy": "Append", "profileSourcedEnvVarsPolicy": "AppendIfNotExists",
			"execConfig": map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "env": []any{map[string]any{"name": "DIR", "value": e.dir}}}})
	})
	file := func(name string) string { return filepath.Join(e.dir, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two := controlplane.Shared(t, "one"), controlplane.Shared(t, "two")
	set := func(name string, cluster *controlplane.Cluster, round int) {
		e.Set(name, linktest.Ways(linktest.Way("script", cluster, map[string]any{"extensions": []any{
			map[string]any{"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": []any{name, fmt.Sprintf("--%s-%d", name, round)}},
			map[string]any{"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs", "extension": map[string]any{"MINE": name, "DIR": "/nowhere"}},
		}}, nil)))
	}
	write("hanging.hangs", "")
	write("hanging.token", e.account(one, "hanging", "hanging").Token)
	write("live.token", e.account(two, "live", "live").Token)
	set("hanging", one, 1)
	set("live", two, 1)
	e.want("hanging")
	e.becomes("hanging", v1alpha1.ReasonPlugin, file("plugin")+" has not answered yet: it says: waiting for a login")
	e.want("live")
	e.reached("live", two)
	e.Delete("live")
	e.becomes("live", v1alpha1.ReasonProfileMissing, "")
	for round := 2; round <= 4; round++ { // each time it is run anew, with other arguments
		set("live", two, round)
		e.eventually(func() error {
			if ran := e.ran("live"); ran != fmt.Sprintf("live --live-%d live", round) {
				return errors.New(ran)
			}
			return nil
		})
		e.reached("live", two)
	}
	if m := e.members.Get(ref("hanging")); m.Reason != v1alpha1.ReasonPlugin {
		t.Errorf("the other one was not waited for: %+v", m)
	}
	// Its profile is used at once, although the plugin hangs.
	set("hanging", one, 2)
	e.eventually(func() error {
		if ran := e.ran("hanging"); ran != "hanging --hanging-2 hanging" {
			return fmt.Errorf("the plugin was run with %s", ran)
		}
		return nil
	})
	if err := os.Remove(file("hanging.hangs")); err != nil {
		t.Fatal(err)
	}
	e.reached("hanging", one)
	for _, name := range []string{"hanging", "live"} {
		all, err := os.ReadFile(file(name + ".ran"))
		for line := range strings.Lines(string(all)) {
			if !strings.HasPrefix(line, name+" --"+name+"-") || !strings.HasSuffix(line, " "+name+"\n") {
				t.Errorf("the plugin of %s was run with %s", name, line)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// ran returns the arguments and variables that the plugin of a cluster was run with last.
func (e *env) ran(name string) string {
	e.Helper()
	all, err := os.ReadFile(filepath.Join(e.dir, name+".ran"))
	if err != nil {
		e.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(all)), "\n")
	return lines[len(lines)-1]
}

func writeScript(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
}
