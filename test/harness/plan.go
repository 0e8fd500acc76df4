//go:build unix

package harness

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Plan runs isthmus plan with a configuration, as the user of this test's Isthmus with the RBAC that it generates for
// isthmus sync, and returns what it printed and its exit code.
func (e *Env) Plan(config string, flags ...string) (output string, code int) {
	e.T.Helper()
	file := e.WriteConfig(config)
	e.Allow(config)
	e.GrantRBAC(file)
	return e.Ask("plan", file, flags...)
}

// Ask runs a command of isthmus that looks at both sides, with the configuration of a file and the RBAC that is there.
func (e *Env) Ask(command, file string, flags ...string) (output string, code int) {
	e.T.Helper()
	return Run(e.T, append([]string{
		command, "--config", file,
		"--local-kubeconfig", e.LocalKubeconfig(), "--remote-kubeconfig", e.RemoteKubeconfig(),
		"--cluster-id", e.ID, "--remote-id", "remote", "--instance", e.ID,
	}, flags...)...)
}

// looks reports whether a request is of a command that may ask for dry runs, and write nothing.
func (r Request) looks() bool {
	return strings.HasPrefix(r.UserAgent, "isthmus-plan/") || strings.HasPrefix(r.UserAgent, "isthmus-explain/")
}

// dryRun reports whether a request asks only what a write would do. A delete says so in its body.
func (r Request) dryRun() bool {
	if r.Verb == "delete" {
		var options struct{ DryRun []string }
		_ = json.Unmarshal(r.RequestObject, &options)
		return slices.Equal(options.DryRun, []string{"All"})
	}
	address, err := url.Parse(r.RequestURI)
	return err == nil && slices.Equal(address.Query()["dryRun"], []string{"All"})
}

// auditLook checks a write request of a command that looks: it is a dry run, or asks for what we may do.
func (e *Env) auditLook(r Request) {
	if !r.dryRun() && r.resource() != "selfsubjectaccessreviews.authorization.k8s.io" {
		e.T.Errorf("audit: a command that only looks wrote: %s", r)
	}
}
