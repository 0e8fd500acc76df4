package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/keep"
	"isthmus.dev/isthmus/internal/controller/nudge"
	mapping "isthmus.dev/isthmus/internal/endpoints"
	"isthmus.dev/isthmus/internal/observe"
)

// LinkSource says which links there are beside the ClusterLinks.
type LinkSource interface {
	// Links returns the links, and what is wrong with those that are left out. why says why they are not known; empty: they are.
	Links() (links []mapping.Found, faults []error, why string)
}

// Links are the ClusterLinks of this cluster that are in use, and links that were found elsewhere, to clusters that no ClusterLink is
// named as. They say on the ClusterLinks how those stand, and probe them.
type Links struct {
	clusterID string
	settle    time.Duration
	seen      client.Reader
	live      client.Client
	metrics   *observe.EndpointMetrics
	logger    *slog.Logger
	source    LinkSource // nil: there is none

	found   found // what source said last
	current atomic.Pointer[mapping.Links]
	inUse   map[string]*mapping.Link // what current holds; only for the one pass at a time
	settled map[string]settling
	probes  probes
	again   nudge.Nudge
	changed []func([]string)
}

// Current returns the links in use; nil: they were not read yet, so nothing may be concluded from an absence.
func (l *Links) Current() *mapping.Links { return l.current.Load() }

// OnChange has f called with the clusters whose links came, went or changed; nil: all may have. It is called before the
// manager starts; f must not block.
func (l *Links) OnChange(f func(clusterIDs []string)) { l.changed = append(l.changed, f) }

// allLinks is the one request by which links are looked at: whether one is used depends on the others.
var allLinks = types.NamespacedName{Name: "links"}

// Reconcile looks at all ClusterLinks.
func (l *Links) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	list := &v1alpha1.ClusterLinkList{}
	if err := l.seen.List(ctx, list); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the ClusterLinks: %w", err)
	}
	if !l.look() {
		return reconcile.Result{}, nil // nothing may be concluded from the absence of what is not known
	}
	objects := l.found.beside(list.Items)
	slices.SortFunc(objects, func(a, b v1alpha1.ClusterLink) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	parsed, verdicts := l.judge(objects)
	remaining := l.calm(objects, parsed, time.Now())
	l.use(slices.Collect(maps.Values(parsed)))
	l.probes.want(objects, func() { l.again.Add(allLinks) })
	result := reconcile.Result{RequeueAfter: remaining}
	for i := range objects {
		if objects[i].UID == "" { // it was found elsewhere
			l.found.tell(l.logger, objects[i].Name, verdicts[i])
			continue
		}
		if err := l.tell(ctx, &objects[i], verdicts[i]); err != nil {
			if keep.Quiet(err) != nil {
				return result, err
			}
			result.RequeueAfter = soonest(result.RequeueAfter, retryFirst)
		}
	}
	return result, nil
}

func soonest(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// judge parses the links, in the order in which they came to be, and returns those that can be used together, by name, and
// what is to be said of each.
func (l *Links) judge(objects []v1alpha1.ClusterLink) (usable map[string]*mapping.Link, verdicts []metav1.Condition) {
	usable, verdicts = map[string]*mapping.Link{}, make([]metav1.Condition, len(objects))
	var all []*mapping.Link
	refused := map[string]metav1.Condition{}
	refuse := func(name, reason, message string) {
		refused[name] = metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	for i := range objects {
		name := objects[i].Name
		link, err := l.found.parse(&objects[i])
		switch {
		case name == l.clusterID:
			refuse(name, v1alpha1.ReasonOwnCluster, "it is named as this cluster: a ClusterLink is named as the cluster that it leads to")
		case err != nil:
			refuse(name, v1alpha1.ReasonInvalidLink, err.Error())
		default:
			all = append(all, link)
			usable[name] = link
		}
	}
	_, overlaps := mapping.NewLinks(all...)
	for _, o := range overlaps {
		delete(usable, o.Link)
		refuse(o.Link, v1alpha1.ReasonLinksOverlap, o.Message+", which was there before; it is not used")
	}
	for i := range objects {
		verdict, bad := refused[objects[i].Name]
		if !bad {
			verdict = metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, Message: "it is in use"}
		}
		verdict.Type, verdict.ObservedGeneration = v1alpha1.ConditionAccepted, objects[i].Generation
		verdicts[i] = verdict
	}
	return usable, verdicts
}

// use makes links those in use, and tells which changed.
func (l *Links) use(links []*mapping.Link) {
	next := map[string]*mapping.Link{}
	for _, link := range links {
		next[link.ClusterID] = link
	}
	var changed []string
	for name, link := range next {
		if !reflect.DeepEqual(l.inUse[name], link) {
			changed = append(changed, name)
			l.metrics.SetLink(name, link.Up)
		}
	}
	for name := range l.inUse {
		if next[name] == nil {
			changed = append(changed, name)
			l.metrics.RemoveLink(name)
		}
	}
	first := l.current.Load() == nil
	if !first && len(changed) == 0 {
		return
	}
	slices.Sort(changed)
	usable, _ := mapping.NewLinks(links...)
	l.inUse = next
	l.current.Store(usable)
	if first {
		changed = nil
	} else {
		l.logger.Info("The links in use changed", "clusters", changed)
	}
	for _, tell := range l.changed {
		tell(changed)
	}
}

// tell writes how a link stands, if it is still as it was read: the condition Connected may be somebody else's.
func (l *Links) tell(ctx context.Context, object *v1alpha1.ClusterLink, accepted metav1.Condition) error {
	before := object.DeepCopy()
	meta.SetStatusCondition(&object.Status.Conditions, accepted)
	l.probes.tell(object)
	if equality.Semantic.DeepEqual(before.Status, object.Status) {
		return nil
	}
	err := l.live.Status().Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("writing the status of ClusterLink %s: %w", object.Name, err)
	}
	return nil
}
