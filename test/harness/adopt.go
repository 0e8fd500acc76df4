//go:build unix

package harness

import (
	"net/http"
	"os/exec"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// Adopt runs isthmus adopt with a configuration, as the user of this test's Isthmus with the RBAC that it generates for
// isthmus sync, and returns what it printed and its exit code.
func (e *Env) Adopt(config, from string, flags ...string) (output string, code int) {
	e.T.Helper()
	return Run(e.T, append(e.adoption(config, from), flags...)...)
}

// AdoptForPlugin runs isthmus adopt with the vcluster.yaml of a plugin, as whom the plugin runs, with the rights that it has
// since it was started once.
func (e *Env) AdoptForPlugin(o PluginOptions, from string, flags ...string) (output string, code int) {
	e.T.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(o.File), &values); err != nil {
		e.T.Fatal(err)
	}
	settings := values["plugin"].(map[string]any)["isthmus"].(map[string]any)["config"].(map[string]any)
	if settings["instance"] == nil {
		settings["instance"] = e.ID // as StartPlugin does
	}
	settings["virtualCluster"] = map[string]any{"name": o.Name, "hostNamespace": o.Namespace}
	file, err := yaml.Marshal(values)
	if err != nil {
		e.T.Fatal(err)
	}
	return Run(e.T, append([]string{
		"adopt", "--from", from, "--config", e.WriteConfig(string(file)), "--local-kubeconfig", e.LocalKubeconfig(), "--remote-kubeconfig", e.RemoteKubeconfig(),
	}, flags...)...)
}

// KillAdoption runs isthmus adopt --yes and kills it (SIGKILL) as soon as when returns true.
func (e *Env) KillAdoption(config, from string, when func() bool) {
	e.T.Helper()
	cmd := exec.Command(Binary(e.T), append(e.adoption(config, from), "--yes")...)
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		e.T.Fatalf("start isthmus adopt: %v", err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	for deadline := time.Now().Add(Patience); !when() && time.Now().Before(deadline); {
		select {
		case <-done:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	<-done
}

// adoption grants the RBAC and returns the arguments of isthmus adopt.
func (e *Env) adoption(config, from string) []string {
	e.T.Helper()
	file := e.WriteConfig(config)
	e.Allow(config)
	e.GrantRBAC(file)
	return []string{
		"adopt", "--from", from, "--config", file,
		"--local-kubeconfig", e.LocalKubeconfig(), "--remote-kubeconfig", e.RemoteKubeconfig(),
		"--cluster-id", e.ID, "--remote-id", remoteID, "--instance", e.ID,
	}
}

// Adopted declares the objects that isthmus adopt may take over in this test: it alone, and these alone.
func (e *Env) Adopted(uids ...types.UID) {
	for _, uid := range uids {
		e.adopted[string(uid)] = true
	}
}

// adopting reports whether a request is isthmus adopt's, for an object that the test declared.
func (e *Env) adopting(r Request, uid string) bool { return r.adopts() && e.adopted[uid] }

func (r Request) adopts() bool { return strings.HasPrefix(r.UserAgent, "isthmus-adopt/") }

// auditAdoption checks a write of isthmus adopt: it patches what the test declared, and nothing else.
func (e *Env) auditAdoption(r Request) {
	done := r.Code() < http.StatusMultipleChoices
	if r.Verb != "patch" || r.ObjectRef.Subresource != "" || done && !e.adopted[object(r.ResponseObject).Metadata.UID] {
		e.T.Errorf("audit: isthmus adopt wrote to what it was not to take over: %s", r)
	}
}
