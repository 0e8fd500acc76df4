//go:build unix

package harness

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Adopt runs isthmus adopt with a configuration, as the user of this test's Isthmus with the RBAC that it generates for
// isthmus sync, and returns what it printed and its exit code.
func (e *Env) Adopt(config, from string, flags ...string) (output string, code int) {
	e.T.Helper()
	file := e.WriteConfig(config)
	e.Allow(config)
	e.GrantRBAC(file)
	return Run(e.T, append([]string{
		"adopt", "--from", from, "--config", file,
		"--local-kubeconfig", e.LocalKubeconfig(), "--remote-kubeconfig", e.RemoteKubeconfig(),
		"--cluster-id", e.ID, "--remote-id", "remote", "--instance", e.ID,
	}, flags...)...)
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
