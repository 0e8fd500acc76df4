//go:build unix

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// bookkept are the resources that Isthmus writes for itself on its own hub.
var bookkept = map[string]bool{
	"events": true, "events.events.k8s.io": true, "leases.coordination.k8s.io": true, "installations.isthmus.dev": true,
	"selfsubjectaccessreviews.authorization.k8s.io": true, "selfsubjectrulesreviews.authorization.k8s.io": true,
}

// Wrote returns what the hub's Isthmus wrote on a member since a time.
func (w *Way) Wrote(since time.Time) (writes []Request) { return w.requests(since, Request.isWrite) }

// Asked returns all that the hub's Isthmus asked a member since a time, without discovery and watches that go on.
func (w *Way) Asked(since time.Time) []Request {
	return w.requests(since, func(r Request) bool { return r.ObjectRef != nil && r.Verb != "watch" })
}

func (r Request) isWrite() bool { return r.IsWrite() && !bookkept[r.resource()] }

func (w *Way) requests(since time.Time, want func(Request) bool) (all []Request) {
	w.t.Helper()
	events, err := w.Member.AuditSince(since)
	if err != nil {
		w.t.Fatalf("audit log of %s: %v", w.Member.Name(), err)
	}
	for _, event := range events {
		r := Request{event, w.Member.Name()}
		if strings.HasPrefix(event.User.Username, "system:serviceaccount:"+accessNamespace+":"+w.hub.User()+"-") && event.Stage == "ResponseComplete" && want(r) {
			all = append(all, r)
		}
	}
	return all
}

// WroteHere returns what the hub's Isthmus wrote on the hub itself since a time, Events and Leases left out; the statuses of
// Installations are among it.
func (h *Hub) WroteHere(since time.Time) (all []Request) {
	h.t.Helper()
	events, err := h.AuditSince(since)
	if err != nil {
		h.t.Fatalf("audit log of %s: %v", h.Name(), err)
	}
	for _, event := range events {
		r := Request{event, h.Name()}
		if event.User.Username == h.User() && event.Stage == "ResponseComplete" && (r.isWrite() || r.IsWrite() && r.resource() == "installations.isthmus.dev") {
			all = append(all, r)
		}
	}
	return all
}

// end stops all processes, looks at what they did, and takes away what a failed test left.
func (h *Hub) end() {
	for _, p := range h.processes {
		p.end()
	}
	h.audit()
	if h.t.Failed() {
		for _, p := range h.processes[max(0, len(h.processes)-1):] {
			h.t.Logf("the end of the log of isthmus:\n%s", tail(p.Log(), 60))
		}
	}
	h.clear()
}

// audit fails the test on what no Isthmus may do on a member: a write that is neither create-only nor bound to the object that
// was looked at, a delete without preconditions (I4); and on a Secret's value or a token in a log, an Event or a status (F4).
func (h *Hub) audit() {
	secrets := []string{Marked}
	for _, w := range h.ways {
		for _, token := range w.tokens {
			if token != "" {
				secrets = append(secrets, token)
			}
		}
		for _, r := range w.Wrote(time.Time{}) {
			h.auditWrite(r)
		}
	}
	for _, r := range h.WroteHere(time.Time{}) {
		if r.isWrite() {
			h.auditWrite(r)
		}
	}
	said := map[string]string{}
	for _, p := range h.processes {
		said["the log"] += p.Log()
	}
	for _, kind := range []string{"events", Installations} {
		text, err := json.Marshal(h.List(kind, h.ID, ""))
		if err != nil {
			h.t.Fatal(err)
		}
		said["the "+kind] = string(text)
	}
	for _, i := range h.List(Installations, h.ID, "") {
		// What people write there is theirs.
		status, _ := json.Marshal(i.Object["status"])
		said["the "+Installations] = string(status)
	}
	for where, text := range said {
		for _, secret := range secrets {
			if at := strings.Index(text, secret); at >= 0 {
				h.t.Errorf("audit: a value of a Secret is in %s: …%s…", where, text[max(0, at-200):min(len(text), at+len(secret)+50)])
			}
		}
	}
}

// auditWrite checks one write.
func (h *Hub) auditWrite(r Request) {
	h.t.Helper()
	request := object(r.RequestObject)
	switch {
	case len(r.RequestObject) == 0 && r.Code() >= 400: // refused before the server read what it says
	case r.Verb == "patch" && strings.HasPrefix(string(r.RequestObject), "["): // a release
		var operations []operation
		_ = json.Unmarshal(r.RequestObject, &operations)
		bound := false
		for _, o := range operations {
			bound = bound || o.Path == "/metadata/uid" && o.Value != "" || o.Path == "/metadata/resourceVersion" && o.Value != ""
		}
		if !bound {
			h.t.Errorf("audit: a JSON patch that is not bound to an object: %s: %s", r, r.RequestObject)
		}
	case r.Verb == "patch":
		created := request.Metadata.ResourceVersion == "1" && request.Metadata.UID == ""
		bound := request.Metadata.ResourceVersion != "" && request.Metadata.UID != ""
		if !created && !bound {
			h.t.Errorf("audit: an apply that is neither create-only nor bound: %s", r)
		}
	case r.Verb == "delete":
		if _, bound := boundTo(r); !bound {
			h.t.Errorf("audit: a delete without UID and resourceVersion: %s", r)
		}
	default:
		h.t.Errorf("audit: a write of another kind than apply, patch and delete: %s", r)
	}
}

// clear takes away what would be in the way of other tests: Installations whatever their state, locks, and webhooks.
func (h *Hub) clear() {
	for _, i := range h.List(Installations, h.ID, "") {
		h.Patch(Installations, h.ID, i.GetName(), "metadata: {finalizers: null}")
		h.Delete(Installations, h.ID, i.GetName())
	}
	selected := v1alpha1.InstalledByLabel + "=" + h.ID
	kinds := []string{
		"validatingwebhookconfigurations.admissionregistration.k8s.io", "mutatingwebhookconfigurations.admissionregistration.k8s.io",
		"customresourcedefinitions.apiextensions.k8s.io", "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
	}
	for _, w := range h.ways {
		for _, kind := range kinds {
			_ = w.Member.Client(kind, "").DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selected})
		}
		_ = w.Member.Client("configmaps", IsthmusNamespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selected})
		for _, namespace := range w.namespaces() {
			w.Member.Delete("namespaces", "", namespace)
		}
	}
	h.Eventually(func() error { // else they would go under the eyes of the next test
		for _, w := range h.ways {
			if left := w.namespaces(); len(left) > 0 {
				return fmt.Errorf("left on %s: %q", w.Member.Name(), left)
			}
			for _, kind := range kinds {
				if left := w.Member.List(kind, "", selected); len(left) > 0 {
					return fmt.Errorf("left on %s: %s %s", w.Member.Name(), kind, left[0].GetName())
				}
			}
		}
		return nil
	})
}

// namespaces are those on the member that are the test's.
func (w *Way) namespaces() (names []string) {
	for _, namespace := range w.Member.List("namespaces", "", "") {
		if strings.HasPrefix(namespace.GetName(), w.hub.ID+"-") || slices.Contains(w.hub.owns, namespace.GetName()) {
			names = append(names, namespace.GetName())
		}
	}
	return names
}
