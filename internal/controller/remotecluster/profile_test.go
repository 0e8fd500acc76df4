//go:build unix

package remotecluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controller/link/linktest"
	"isthmus.dev/isthmus/internal/controlplane"
)

// put writes a Secret.
func (e *env) put(name string, data map[string]string) {
	e.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, StringData: data}
	_, err := e.kube.CoreV1().Secrets(namespace).Create(context.Background(), s, metav1.CreateOptions{})
	if err != nil {
		_, err = e.kube.CoreV1().Secrets(namespace).Update(context.Background(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		e.Fatal(err)
	}
}

// pluginEnv starts Remotes with the real plugins, each of which is offered to it, acting as the user that Isthmus is. write
// writes the provider file anew.
func pluginEnv(t *testing.T) (e *env, file string, write func(names ...string)) {
	t.Helper()
	dir := t.TempDir()
	linktest.BuildPlugins(t, dir, linktest.SecretReader, linktest.KubeconfigSecretReader)
	kubeconfig := linktest.PluginKubeconfig(t, controlplane.Shared(t, "local"), dir, "isthmus", namespace)
	file = filepath.Join(dir, "providers.json")
	write = func(names ...string) {
		t.Helper()
		var all []map[string]any
		for _, name := range names {
			all = append(all, linktest.Provider(name, kubeconfig))
		}
		linktest.WriteProviders(t, file, all...)
	}
	write(linktest.SecretReader, linktest.KubeconfigSecretReader)
	providers, err := access.OpenProviderFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return newEnvWith(t, providers), file, write
}

// profiles are the ClusterProfiles of the tests, under a version.
func (e *env) profiles(version string) linktest.Profiles {
	return linktest.Profiles{T: e, Cluster: e.cp, Version: version, Namespace: "default"}
}

func (e *env) profiled(name string) {
	e.Helper()
	e.create(name, v1alpha1.Access{ClusterProfileRef: &v1alpha1.ClusterProfileRef{Namespace: "default", Name: name}})
}

// A ClusterProfile is followed, from before its kind is served, through all that may change of it and around it.
func TestClusterProfileIsFollowed(t *testing.T) {
	e, file, write := pluginEnv(t)
	ctx := context.Background()
	e.apply(e.cp, "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n")
	p := e.profiles("v1alpha1")
	p.Unserve()
	paris := controlplane.Shared(t, "paris")
	account := e.consumer(paris, "profiled")

	e.profiled("paris")
	message := func(reason, want string) {
		t.Helper()
		e.eventually(func() string {
			if c := e.condition("paris", v1alpha1.ConditionReachable); c.Reason != reason || !strings.Contains(c.Message, want) {
				return fmt.Sprintf("%s: %s, want %s", c.Reason, c.Message, want)
			}
			return ""
		})
	}
	message(v1alpha1.ReasonAccess, "serves no ClusterProfiles")
	p.Serve()
	message(v1alpha1.ReasonAccess, "ClusterProfile default/paris does not exist")

	spoke := map[string]any{"clusterName": "spoke"}
	p.Set("paris", linktest.Ways(linktest.Way("unheard-of", paris, nil, map[string]any{})))
	message(v1alpha1.ReasonAccess, "which has secretreader, kubeconfig-secretreader")
	p.Set("paris", linktest.Ways(linktest.Way("secretreader", paris, nil, spoke)))
	message(v1alpha1.ReasonPlugin, `secrets "spoke" not found`) // what the plugin says
	e.put("spoke", map[string]string{"token": account.Token})
	e.reachable("paris", v1alpha1.ReasonReached)
	remote := e.of("paris").Cluster

	// Its token is replaced, and the old one ends, without any change of the profile: no request fails.
	next := e.consumer(paris, "profiled-2")
	e.put("spoke", map[string]string{"token": next.Token})
	account.Revoke(t)
	for range 3 {
		if _, err := remote.UID(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if c := e.condition("paris", v1alpha1.ConditionReachable); c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}

	// Its certificate authority, endpoint and provider change.
	other := map[string]any{"certificate-authority-data": base64.StdEncoding.EncodeToString(linktest.CA(e.cp.Config()))}
	p.Set("paris", linktest.Ways(linktest.Way("secretreader", paris, other, spoke)))
	message(v1alpha1.ReasonTLS, "certificate")
	proxy := linktest.NewProxy(t, paris)
	p.Set("paris", linktest.Ways(linktest.Way("secretreader", paris, map[string]any{"server": proxy.URL()}, spoke)))
	e.reachable("paris", v1alpha1.ReasonReached)
	if remote.Server() != proxy.URL() || e.get("paris").Status.Server != proxy.URL() {
		t.Errorf("server %s, in the status %s", remote.Server(), e.get("paris").Status.Server)
	}
	third := e.consumer(paris, "profiled-3")
	e.put("whole", map[string]string{"value": third.Kubeconfig()})
	p.Set("paris", linktest.Ways(linktest.Way("kubeconfig-secretreader", paris, nil, map[string]any{"name": "whole", "key": "value"})))
	e.eventually(func() string {
		if remote.Server() != paris.URL() {
			return "the provider was not changed"
		}
		return ""
	})
	next.Revoke(t)
	if _, err := remote.UID(ctx); err != nil {
		t.Fatal(err)
	}
	e.reachable("paris", v1alpha1.ReasonReached)

	// The provider file changes.
	write("secretreader")
	message(v1alpha1.ReasonAccess, "which has secretreader")
	if err := os.WriteFile(file, []byte("providers: 5"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if !strings.Contains(e.log.String(), "providers.json:1:12: providers: is the number 5") {
			return "the fault is not told"
		}
		return ""
	})
	write("kubeconfig-secretreader")
	e.reachable("paris", v1alpha1.ReasonReached)

	// Its control plane is called unhealthy, heals, and the profile is deleted.
	whole := linktest.Way("kubeconfig-secretreader", paris, nil, map[string]any{"name": "whole", "key": "value"})
	p.Set("paris", linktest.Unhealthy("Down", "no etcd", whole))
	message(v1alpha1.ReasonUnhealthy, "Down: no etcd")
	e.eventually(func() string {
		if e.of("paris").Usable {
			return "still usable"
		}
		return ""
	})
	p.Set("paris", linktest.Ways(whole))
	e.reachable("paris", v1alpha1.ReasonReached)
	p.Delete("paris")
	message(v1alpha1.ReasonAccess, "ClusterProfile default/paris does not exist")
	if e.of("paris").Cluster != remote {
		t.Error("another Cluster than before")
	}
	for _, token := range []string{account.Token, next.Token, third.Token} {
		if strings.Contains(e.log.String(), token) {
			t.Error("a token was logged")
		}
	}
}

// F6, row 401: while writes run, a token of a plugin that says nothing of its end is replaced and ends: no write fails.
func TestF6_RotatedPluginTokenLosesNoWrite(t *testing.T) {
	e, _, _ := pluginEnv(t)
	p := e.profiles("v1alpha1")
	p.Serve()
	paris := controlplane.Shared(t, "paris")
	account := e.consumer(paris, "plugged-0")
	e.put("spoke", map[string]string{"token": account.Token})
	p.Set("paris", linktest.Ways(linktest.Way("secretreader", paris, nil, map[string]any{"clusterName": "spoke"})))
	e.profiled("paris")
	e.reachable("paris", v1alpha1.ReasonReached)
	remote := e.of("paris").Cluster

	more, done := e.writing(remote, "plugged")
	for i := 1; i <= 2; i++ {
		next := e.consumer(paris, fmt.Sprintf("plugged-%d", i))
		e.put("spoke", map[string]string{"token": next.Token})
		account.Revoke(t)
		account = next
		more()
		time.Sleep(time.Second)
	}
	done()
}

// A version of ClusterProfiles that this program does not know is read as far as it is known.
func TestClusterProfileOfALaterVersion(t *testing.T) {
	e, _, _ := pluginEnv(t)
	p := e.profiles("v1alpha2")
	p.Unserve()
	e.eventually(func() string {
		if p.Served() {
			return "the CRD does not go"
		}
		return ""
	})
	p.Serve()
	paris := controlplane.Shared(t, "paris")
	e.put("spoke", map[string]string{"token": e.consumer(paris, "later").Token})
	p.Set("paris", linktest.Ways(linktest.Way("secretreader", paris, nil, map[string]any{"clusterName": "spoke"})))
	e.profiled("paris")
	e.reachable("paris", v1alpha1.ReasonReached)
	p.Unserve()
	if c := e.reachable("paris", v1alpha1.ReasonAccess); !strings.Contains(c.Message, "serves no ClusterProfiles") && !strings.Contains(c.Message, "does not exist") {
		t.Error(c.Message)
	}
}
