//go:build unix

package harness

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controlplane"
)

// Request is a request of this test's Isthmus, as the API server's audit log has it.
type Request struct {
	controlplane.AuditEvent
	Side string // "local" or "remote"
}

// String tells what was asked and answered.
func (r Request) String() string {
	where := r.RequestURI
	if i := strings.IndexByte(where, '?'); i >= 0 {
		where = where[:i]
	}
	return fmt.Sprintf("%s %s %s %s → %d", r.Time.Format("15:04:05.000"), r.Side, r.Verb, where, r.Code())
}

// resource returns plural.group, or plural, of what was asked for.
func (r Request) resource() string {
	if r.ObjectRef == nil {
		return ""
	}
	if r.ObjectRef.APIGroup == "" {
		return r.ObjectRef.Resource
	}
	return r.ObjectRef.Resource + "." + r.ObjectRef.APIGroup
}

// bookkeeping writes are named exceptions: Events, Leases, and the ledger.
func (r Request) bookkeeping() bool {
	switch r.resource() {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io", "selfsubjectaccessreviews.authorization.k8s.io":
		return true
	case "namespaces": // of the ledger, which a plugin makes
		return r.Side == "local" && r.Verb == "create" && r.ObjectRef.Name == "isthmus-system"
	case "services": // on which a plugin tells what is wrong
		return r.Side == "remote" && r.Verb == "get" && r.isPlugin()
	case "configmaps":
		return r.Side == "local" && strings.HasPrefix(r.ObjectRef.Name, "isthmus-")
	}
	return false
}

func (r Request) isPlugin() bool { return strings.HasPrefix(r.UserAgent, "isthmus-plugin/") }

// Requests returns what Isthmus asked both sides since a time, in order, as far as it is answered: a watch is not, until
// it ends.
func (e *Env) Requests(since time.Time) []Request {
	e.T.Helper()
	return e.requests(since, func(r Request) bool { return r.Stage == "ResponseComplete" })
}

// Listings returns the lists and watches that Isthmus began since a time, in order.
func (e *Env) Listings(since time.Time) []Request {
	e.T.Helper()
	return e.requests(since, func(r Request) bool {
		return r.Verb == "list" && r.Stage == "ResponseComplete" || r.Verb == "watch" && r.Stage == "ResponseStarted"
	})
}

func (e *Env) requests(since time.Time, want func(Request) bool) []Request {
	e.T.Helper()
	if since.Before(e.began) {
		since = e.began // until when there was no such user
	}
	var all []Request
	for name, side := range map[string]*Side{"local": e.Local, "remote": e.Remote} {
		events, err := side.AuditSince(since)
		if err != nil {
			e.T.Fatalf("audit log of %s: %v", side.Name(), err)
		}
		user := e.User()
		if name == "remote" && e.remoteUser != "" {
			user = e.remoteUser
		}
		for _, event := range events {
			if r := (Request{event, name}); event.User.Username == user && want(r) {
				all = append(all, r)
			}
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Time.Before(all[j].Time) })
	return all
}

// Writes returns the writes of Isthmus since a time, without its bookkeeping and without dry runs.
func (e *Env) Writes(since time.Time) []Request {
	e.T.Helper()
	var writes []Request
	for _, r := range e.Requests(since) {
		if r.IsWrite() && !r.bookkeeping() && !(r.looks() && r.dryRun()) {
			writes = append(writes, r)
		}
	}
	return writes
}

// Reads returns the reads of single objects (GET) since a time: lists, watches, discovery and schemas are not among
// them.
func (e *Env) Reads(since time.Time) []Request {
	e.T.Helper()
	var reads []Request
	for _, r := range e.Requests(since) {
		if r.Verb == "get" && r.ObjectRef != nil && r.ObjectRef.Name != "" && !r.bookkeeping() {
			reads = append(reads, r)
		}
	}
	return reads
}

// ways are the ways in which a kind may cross.
type ways struct {
	out bool // to the remote side: twins are there, and the sources' status is written on the local one
	in  bool // to the local side: copies are there, and nothing is written on the remote one
	// mirror: copies come with their status.
	mirror bool
}

// add takes in another way.
func (w ways) add(o ways) ways { return ways{w.out || o.out, w.in || o.in, w.mirror || o.mirror} }

// twinsOn reports whether twins of the kind may be on a side.
func (w ways) twinsOn(side string) bool { return side == "remote" && w.out || side == "local" && w.in }

// groundwork is what every Isthmus reads beside the kinds of its rules: the clusters' identities, CRDs, namespaces.
var groundwork = map[string]bool{"namespaces": true, "customresourcedefinitions.apiextensions.k8s.io": true}

// Allow notes the kinds that a configuration names, and how they cross: Isthmus may ask for no others (S1).
func (e *Env) Allow(config string) {
	var file struct {
		SyncResources []struct {
			APIVersion, Kind, Direction, Mode, DeletionPolicy string
			CarryFinalizers                                   []string
		}
	}
	if yaml.Unmarshal([]byte(config), &file) != nil {
		return // a test of what is wrong with files
	}
	for _, rule := range file.SyncResources {
		gvr, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(rule.APIVersion, rule.Kind))
		kind, in := gvr.GroupResource().String(), rule.Direction == "fromHost"
		e.crosses[kind] = e.crosses[kind].add(ways{out: !in, in: in, mirror: in && rule.Mode == "mirror"})
		if rule.DeletionPolicy == "Foreground" || len(rule.CarryFinalizers) > 0 {
			e.holds[kind] = append(append(e.holds[kind], rule.CarryFinalizers...), e.Finalizer())
		}
	}
}

// Finalizer is what this test's Isthmus holds sources with.
func (e *Env) Finalizer() string { return e.hold }

// all are the ways of all kinds.
func (e *Env) all() (w ways) {
	for _, one := range e.crosses {
		w = w.add(one)
	}
	return w
}

// auditKind checks that a request asks for what a rule names, or belongs to the groundwork.
func (e *Env) auditKind(r Request) {
	kind := r.resource()
	switch _, crosses := e.crosses[kind]; {
	case r.ObjectRef == nil, crosses, r.bookkeeping():
	case !r.IsWrite() && groundwork[kind] && r.ObjectRef.Name != "":
	case kind == "namespaces" && e.all().twinsOn(r.Side): // to make them, or with rules whose namespaces can't be listed
	default:
		e.T.Errorf("audit: a request for a kind that no rule names: %s", r)
	}
}

// audit fails the test on any request of Isthmus that it must never make (docs/contract.md: S1, P1, P3, O5, F2).
func (e *Env) audit() {
	ours := map[string]bool{} // UIDs of objects that carry our stamp, as far as the log has told
	for _, r := range e.Requests(e.began) {
		e.auditKind(r)
		if r.looks() && r.IsWrite() {
			e.auditLook(r)
			continue
		}
		if !r.IsWrite() || r.bookkeeping() {
			continue
		}
		for _, q := range e.quiet {
			if r.RequestReceived.After(q.from) && r.RequestReceived.Before(q.to) {
				e.T.Errorf("audit: a write in a quiet time: %s", r)
			}
		}
		e.auditWrite(r, ours)
	}
}

// auditWrite checks one write, by what may cross to its side.
func (e *Env) auditWrite(r Request, ours map[string]bool) {
	if r.adopts() {
		e.auditAdoption(r)
	}
	way := e.crosses[r.resource()]
	if r.resource() == "namespaces" && !way.twinsOn(r.Side) {
		way = e.all()
	}
	switch patch := finalizersPatch(r); {
	case patch != nil && r.Side == "local" && len(e.holds[r.resource()]) > 0:
		e.auditHold(r, patch)
	case r.Code() == http.StatusForbidden && len(r.RequestObject) == 0: // refused before the server read what it says
	case r.ObjectRef.Subresource != "":
		e.auditStatus(r, ours, way)
	case way.twinsOn(r.Side):
		e.auditTwin(r, ours)
	default:
		e.T.Errorf("audit: a write to a source that is not its status: %s", r)
	}
}

// auditStatus checks one write to a subresource: on the local side alone, a source's status that returns, or a mirror's.
func (e *Env) auditStatus(r Request, ours map[string]bool, way ways) {
	if r.Side != "local" || r.ObjectRef.Subresource != "status" || r.Verb != "patch" {
		e.T.Errorf("audit: a write to a subresource that is not a status on the local side: %s", r)
		return
	}
	written := object(r.ResponseObject).Metadata.UID
	if r.Code() >= 300 || written == "" {
		return
	}
	switch {
	case ours[written] && !way.mirror:
		e.T.Errorf("audit: a status is written to a copy that is no mirror: %s", r)
	case !ours[written] && !way.out:
		e.T.Errorf("audit: a status is written to an object that Isthmus did not create: %s", r)
	}
}

// auditTwin checks one write on the side of twins.
func (e *Env) auditTwin(r Request, ours map[string]bool) {
	request, response := object(r.RequestObject), object(r.ResponseObject)
	switch {
	case r.Verb == "patch" && strings.Contains(r.RequestURI, "fieldManager="+boundary.HandoverManager):
		if !ours[request.Metadata.UID] && !e.adopting(r, request.Metadata.UID) {
			e.T.Errorf("audit: a handover on an object that is not ours: %s", r)
		}
	case r.Verb == "patch" && request.Metadata.Annotations != nil && r.resource() == "namespaces":
		if request.Metadata.ResourceVersion != "1" && !e.adopting(r, request.Metadata.UID) {
			e.T.Errorf("audit: a write to a namespace that is not create-only: %s", r)
		}
	case r.Verb == "patch" && request.Metadata.Annotations != nil:
		for _, key := range []string{boundary.AnnotationWriter, boundary.AnnotationRule, boundary.AnnotationSource, boundary.AnnotationSourceUID,
			boundary.AnnotationSourceGeneration, boundary.AnnotationTwin, boundary.AnnotationApplied} {
			if request.Metadata.Annotations[key] == "" {
				e.T.Errorf("audit: an apply without %s: %s", key, r)
			}
		}
		if request.Metadata.Labels[boundary.LabelOrigin] == "" {
			e.T.Errorf("audit: an apply without %s: %s", boundary.LabelOrigin, r)
		}
		created := request.Metadata.ResourceVersion == "1" && request.Metadata.UID == ""
		bound := request.Metadata.UID != "" && request.Metadata.ResourceVersion != ""
		if !created && !bound {
			e.T.Errorf("audit: an apply that is neither create-only nor bound to a UID and a resourceVersion: %s", r)
		}
		if bound && r.Code() < 300 && !ours[request.Metadata.UID] && !e.adopting(r, request.Metadata.UID) && !e.lax {
			e.T.Errorf("audit: an apply to an object that Isthmus did not create: %s", r)
		}
		if r.Code() < 300 {
			ours[response.Metadata.UID] = true
		}
	case r.Verb == "patch": // the JSON patch of a release
		if r.Code() < 300 && !ours[response.Metadata.UID] && !e.lax {
			e.T.Errorf("audit: a release of an object that Isthmus did not create: %s", r)
		}
	case r.Verb == "delete":
		unread := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable}
		if len(r.RequestObject) == 0 && slices.Contains(unread, r.Code()) {
			return // refused before the server read what it says
		}
		if uid, bound := boundTo(r); !bound {
			e.T.Errorf("audit: a delete without UID and resourceVersion: %s", r)
		} else if r.Code() < 300 && !ours[uid] && !e.lax {
			e.T.Errorf("audit: a delete of an object that Isthmus did not create: %s", r)
		}
	default:
		e.T.Errorf("audit: a write of another kind than apply, patch and delete: %s", r)
	}
}

// boundTo returns the UID of the object that a delete is bound to; bound: to a state of it, too.
func boundTo(r Request) (uid string, bound bool) {
	var options struct {
		Preconditions struct{ UID, ResourceVersion string }
	}
	_ = json.Unmarshal(r.RequestObject, &options)
	return options.Preconditions.UID, options.Preconditions.UID != "" && options.Preconditions.ResourceVersion != ""
}

// operation is one of a JSON patch.
type operation struct {
	Op, Path string
	Value    any
}

// finalizersPatch returns the JSON patch of a request that says something about finalizers; nil: it does not.
func finalizersPatch(r Request) []operation {
	var patch []operation
	if r.Verb != "patch" || r.ObjectRef.Subresource != "" || json.Unmarshal(r.RequestObject, &patch) != nil ||
		!slices.ContainsFunc(patch, func(o operation) bool { return strings.HasPrefix(o.Path, "/metadata/finalizers") }) {
		return nil
	}
	return patch
}

// auditHold checks the one write to a source that is no status, by which a rule holds it or lets it go: it is bound to
// the state of the source that it is for, and changes nothing but finalizers of ours and those that twins carry (D3).
func (e *Env) auditHold(r Request, patch []operation) {
	tested := map[string]bool{}
	var before, after []any
	for _, o := range patch {
		names, _ := o.Value.([]any)
		switch {
		case o.Op == "test":
			tested[o.Path] = o.Value != "" && o.Value != nil
			if o.Path == "/metadata/finalizers" {
				before = names
			}
		case o.Path == "/metadata/finalizers" && (o.Op == "add" || o.Op == "remove"):
			after = names
		default:
			e.T.Errorf("audit: a write to a source that changes more than finalizers: %s: %s", r, r.RequestObject)
		}
	}
	if !tested["/metadata/uid"] || !tested["/metadata/resourceVersion"] {
		e.T.Errorf("audit: finalizers of a source are written without a test of UID and resourceVersion: %s", r)
	}
	for _, name := range slices.Concat(before, after) {
		text, _ := name.(string)
		was, is := slices.Contains(before, name), slices.Contains(after, name)
		switch {
		case was == is:
		case is && text != e.Finalizer():
			e.T.Errorf("audit: a finalizer that is not ours is set on a source: %s: %s", text, r)
		case !slices.Contains(e.holds[r.resource()], text):
			e.T.Errorf("audit: a finalizer of somebody else is taken off a source: %s: %s", text, r)
		}
	}
}

type auditObject struct {
	Metadata struct {
		Name, UID, ResourceVersion string
		Annotations, Labels        map[string]string
	}
}

func object(raw json.RawMessage) auditObject {
	var o auditObject
	_ = json.Unmarshal(raw, &o) // a JSON patch is a list, and so no object
	return o
}
