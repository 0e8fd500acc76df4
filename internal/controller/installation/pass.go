package installation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/keep"
	"isthmus.dev/isthmus/internal/install"
	"isthmus.dev/isthmus/internal/observe"
)

// pass is one look at an Installation and its cluster, and what is done about it.
type pass struct {
	*worker
	i      *v1alpha1.Installation
	before *v1alpha1.Installation // as its status was written last
	stamp  stamp
	secret bool // nothing that a server quotes may be told
	dry    *rehearsal
	standing

	// Of the cluster, once it is resolved:
	place      *place
	cluster    *cluster.Cluster
	clusterUID string
	namespace  string // the destination namespace
	verified   bool   // the cluster was asked who it is

	bundle    *install.Bundle
	resources map[schema.GroupVersionKind]cluster.Resource // of what is served
	unseen    map[schema.GroupVersionResource]verdict      // kinds that can't be watched, and why
	blocking  map[feedKey]bool                             // foreign objects that were found in the way
	lock      lock
	ran       map[string]string // what ran to completion, with which content
	runs      map[string]bool   // what of the bundle does so
	anchors   map[string]*unstructured.Unstructured
	pruned    bool // nothing of former manifests is left
	forbidden bool // a right is missing

	// What keeps it from being done, an object each:
	refused, faults, waits, fights []string
	restored                       []string
	again                          time.Duration // when to look again, if nothing changes
}

// errHalt ends a pass: what is said in its standing is why. It is no failure.
var errHalt = errors.New("the pass ends here")

// pass makes a pass, and returns in how long the next one is due; 0: when something changes.
func (w *worker) pass(ctx context.Context) time.Duration {
	i, err := w.read(ctx)
	switch {
	case err != nil:
		return w.backoff()
	case i == nil:
		return 0
	case i.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(i, v1alpha1.InstallationFinalizer):
		return w.failed(keep.Quiet(keep.Hold(ctx, w.r.client, i, v1alpha1.InstallationFinalizer)))
	case i.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(i, v1alpha1.InstallationFinalizer):
		return 0
	}
	p := newPass(w, i)
	if i.DeletionTimestamp != nil {
		err = p.leave(ctx)
	} else {
		err = p.install(ctx)
	}
	if ctx.Err() != nil {
		return 0
	}
	return p.end(ctx, err)
}

func newPass(w *worker, i *v1alpha1.Installation) *pass {
	p := &pass{worker: w, i: i, before: i.DeepCopy(), stamp: stampOf(w.r.o.Hub, i), secret: secretManifests(i), ran: map[string]string{}, runs: map[string]bool{}, anchors: map[string]*unstructured.Unstructured{},
		unseen: map[schema.GroupVersionResource]verdict{}, blocking: map[feedKey]bool{}}
	p.namespace = i.Namespace
	if d := i.Spec.Destination; d != nil {
		p.namespace = d.Namespace
	}
	return p
}

// failed returns when to make a pass again after one that ended with err.
func (w *worker) failed(err error) time.Duration {
	if err == nil {
		w.fails = 0
		return 0
	}
	w.r.o.Logger.Debug("A pass over an Installation failed", "installation", w.name, "error", observe.Redact(err, true))
	return w.backoff()
}

// end says how it stands, and returns when the next pass is due.
func (p *pass) end(ctx context.Context, err error) time.Duration {
	if err != nil && !errors.Is(err, errHalt) {
		verdict := verdict{metav1.ConditionFalse, p.reasonOf(err), observe.Redact(err, p.secret)}
		if p.i.DeletionTimestamp != nil {
			p.leaving = verdict
		} else {
			p.applied = verdict
		}
	}
	if p.standing != (standing{}) {
		if failed := p.tell(ctx); failed != nil && err == nil {
			err = failed
		}
	}
	if err != nil && !errors.Is(err, errHalt) {
		return p.worker.failed(err)
	}
	p.worker.fails = 0
	return p.again
}

// tell writes how it stands, if that is something else than before, and an Event of each condition that changed.
func (p *pass) tell(ctx context.Context) error {
	if p.dry != nil {
		return nil
	}
	changed := p.standing.apply(p.i)
	if len(p.restored) > 0 {
		p.r.event(p.i, corev1.EventTypeNormal, "Restored", "Put back what others changed: "+fewOf(p.restored))
	}
	for _, c := range changed {
		kind := corev1.EventTypeWarning
		if c.Status == metav1.ConditionTrue || onItsWay(c.Reason) {
			kind = corev1.EventTypeNormal
		}
		if c.Type == v1alpha1.ConditionReady || c.Type == v1alpha1.ConditionTargetClusterResolved && kind == corev1.EventTypeWarning {
			p.r.event(p.i, kind, c.Reason, c.Message)
			p.r.o.Logger.Info("An Installation stands otherwise than before", "installation", p.name, "condition", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
		}
	}
	return p.save(ctx)
}

// save writes the status.
func (p *pass) save(ctx context.Context) error {
	if p.dry != nil {
		return nil
	}
	if err := p.write(ctx, p.before, p.i); err != nil {
		return err
	}
	p.before = p.i.DeepCopy()
	return nil
}

// soon has a pass made in some time at the latest.
func (p *pass) soon(d time.Duration) {
	if d > 0 && (p.again == 0 || d < p.again) {
		p.again = d
	}
}

// reasonOf returns the reason of Applied for an error that ended a pass.
func (p *pass) reasonOf(err error) string {
	switch {
	case errors.Is(err, errLost):
		return v1alpha1.ReasonLockLost
	case cluster.Reason(err) == cluster.ReasonForbidden:
		return v1alpha1.ReasonForbidden
	}
	return v1alpha1.ReasonApplyFailed
}

// resolve finds the cluster that it goes to, and makes sure that it is the one that it was. ctx is for its requests from then
// on: they reach no other server.
func (p *pass) resolve(ctx context.Context) (context.Context, error) {
	ref := refOf(p.i)
	m := p.r.member(ref)
	what := "The local cluster"
	if ref != local {
		what = fmt.Sprintf("The cluster of ClusterProfile %s", ref)
	}
	unresolved := func(status metav1.ConditionStatus, reason, message string) (context.Context, error) {
		p.resolved = verdict{status, reason, message}
		if p.i.DeletionTimestamp == nil && p.i.Status.ClusterUID != "" {
			p.applied, p.available = unknownTarget, unknownTarget
		}
		return ctx, errHalt
	}
	switch {
	case m.Cluster == nil || !m.Reached || m.UID == "" || m.Epoch != m.Cluster.Epoch():
		status := metav1.ConditionFalse
		if m.Reason == "" || m.Reason == v1alpha1.ReasonConnecting || m.Reason == v1alpha1.ReasonReached {
			if p.i.Status.ClusterUID != "" {
				return ctx, errHalt // it is about to be known; what was known is not forgotten over a restart
			}
			status, m.Reason, m.Message = metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "It was not asked yet who it is"
		}
		return unresolved(status, m.Reason, m.Message)
	case p.i.Status.ClusterUID != "" && p.i.Status.ClusterUID != m.UID:
		return unresolved(metav1.ConditionFalse, v1alpha1.ReasonReplaced, fmt.Sprintf("%s is another one than the one that this was installed on: the UID of its namespace %s is %s, not %s. Nothing is written there. %s",
			what, metav1.NamespaceSystem, m.UID, p.i.Status.ClusterUID, "Delete this Installation, and create it anew for the new cluster"))
	}
	p.cluster, p.place, p.clusterUID = m.Cluster, p.r.place(ref), m.UID
	p.place.kinds.of(m.UID)
	ctx = m.Pin(ctx)
	p.resolved = verdict{metav1.ConditionTrue, v1alpha1.ReasonReached, what + " answers"}
	p.i.Status.Server, p.i.Status.Namespace = m.Server, p.namespace
	if p.i.Status.ClusterUID == "" && p.i.DeletionTimestamp == nil {
		// It is known before anything is written there: without it, nothing was.
		p.i.Status.ClusterUID = m.UID
		p.applied = verdict{metav1.ConditionFalse, v1alpha1.ReasonLooking, "What is there is being looked at"}
		p.available = verdict{metav1.ConditionFalse, v1alpha1.ReasonNotApplied, "Nothing is installed yet"}
		if err := p.tell(ctx); err != nil {
			return ctx, err
		}
	}
	if p.dry == nil {
		p.place.eyes.want(p.name, p.cluster, m.UID, p.lockKeys())
	}
	return ctx, nil
}

// lockKeys returns what is watched whatever is installed.
func (p *pass) lockKeys() map[feedKey]bool {
	keys := map[feedKey]bool{p.lockKey(): true}
	for key := range p.seen {
		keys[key] = true
	}
	return keys
}

func (p *pass) lockKey() feedKey {
	return feedKey{resource: configMaps, Selection: cluster.Selection{Namespace: install.SystemNamespace, Name: install.LockName(p.i.Spec.Component)}}
}

// compact sorts texts and takes out those that are there twice.
func compact(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}
