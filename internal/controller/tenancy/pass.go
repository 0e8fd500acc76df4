package tenancy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controller/keep"
	"isthmus.dev/isthmus/internal/rbac"
)

// tenancy is the reconciler of everything that belongs to a consumer, by the consumer's name.
type tenancy struct {
	Options
	seen client.Reader // caches
	live client.Client

	mu sync.Mutex
	// lacking are the kinds that the controller itself lacks the rights to hand out, until when that is believed.
	lacking map[string]time.Time
}

// pass is one settling of one consumer.
type pass struct {
	*tenancy
	name     string             // the consumer's
	own      string             // its own namespace
	consumer *v1alpha1.Consumer // nil: there is none, or it is on its way out
	leaving  *v1alpha1.Consumer // the one on its way out
	requests []*asked
	// foreign: its own namespace was not made for it. Whoever made it may have let others write there: no request in it counts.
	foreign bool
	// reserved are the namespaces that this controller made: there, what has the name of the consumer's role is ours.
	reserved map[string]bool
	// held are the namespaces that the consumer has; nil: not asked yet.
	held map[string]bool
	// trouble is what the provider's operator has to do something about; zero: nothing.
	trouble condition
	errs    []error
}

// asked is a request and what became of it.
type asked struct {
	*v1alpha1.NamespaceRequest
	verdict
	// failed is what went wrong with it; the consumer gets to know of it no more than that.
	failed error
}

// Reconcile settles one consumer. The order matters: rights that are too many go first, and nothing is called Ready before the
// rights are there.
func (t *tenancy) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p := &pass{tenancy: t, name: request.Name, own: v1alpha1.ConsumerNamespacePrefix + request.Name}
	p.reserved = map[string]bool{p.own: true}
	if err := p.read(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if p.consumer == nil && p.leaving == nil && len(p.requests) == 0 {
		return p.result(ctx, p.clear(ctx))
	}
	if p.consumer != nil {
		p.enter(ctx)
	}
	p.judge(ctx)
	again := p.grant(ctx)
	p.leave(ctx)
	p.tell(ctx)
	result, err := p.result(ctx, nil)
	if err == nil && result.RequeueAfter == 0 {
		result.RequeueAfter = again
	}
	return result, err
}

// read takes in the consumer, its own namespace, and its requests, oldest first.
func (p *pass) read(ctx context.Context) error {
	consumer := &v1alpha1.Consumer{}
	switch err := p.seen.Get(ctx, types.NamespacedName{Name: p.name}, consumer); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading Consumer %s: %w", p.name, err)
	case consumer.DeletionTimestamp != nil:
		p.leaving = consumer
	default:
		p.consumer = consumer
	}
	own, err := p.namespace(ctx, p.seen, p.own)
	if err != nil {
		return err
	}
	p.foreign = own != nil && !p.made(own)
	list := &v1alpha1.NamespaceRequestList{}
	if err := p.seen.List(ctx, list, client.InNamespace(p.own)); err != nil {
		return fmt.Errorf("listing the NamespaceRequests of consumer %s: %w", p.name, err)
	}
	for i := range list.Items {
		p.requests = append(p.requests, &asked{NamespaceRequest: &list.Items[i]})
	}
	slices.SortFunc(p.requests, func(a, b *asked) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// result is that of a pass: what lost a race is tried again soon, and is no error.
func (p *pass) result(ctx context.Context, err error) (reconcile.Result, error) {
	soon := false
	var errs []error
	for _, err := range append(p.errs, err) {
		switch {
		case err == nil:
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			soon = true
		default:
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		p.Logger.Warn("Settling a consumer failed and is tried again", "consumer", p.name, "error", err)
		return reconcile.Result{}, err
	}
	if soon {
		return reconcile.Result{RequeueAfter: retryFirst}, nil
	}
	return reconcile.Result{}, nil
}

func (p *pass) fail(err error) { p.errs = append(p.errs, err) }

// enter lets the consumer in: its finalizer, and its own namespace.
func (p *pass) enter(ctx context.Context) {
	if err := keep.Hold(ctx, p.live, p.consumer, v1alpha1.ConsumerFinalizer); err != nil {
		p.fail(err)
	}
	if p.foreign {
		p.trouble = condition{v1alpha1.ReasonTaken, fmt.Sprintf("namespace %s exists and was not made for this Consumer: "+
			"remove it, or label it %s: %s if nobody else may write there", p.own, consumerLabel, p.name)}
		p.consumer, p.leaving = nil, p.consumer
		return
	}
	if err := p.ensureOwnNamespace(ctx); err != nil {
		p.fail(err)
	}
}

// judge answers the requests, and makes and takes what their namespaces need.
func (p *pass) judge(ctx context.Context) {
	for _, a := range p.requests {
		if a.DeletionTimestamp != nil {
			continue
		}
		if err := p.answer(ctx, a); err != nil {
			a.failed = err
			p.fail(err)
		}
	}
}

// answer answers one request.
func (p *pass) answer(ctx context.Context, a *asked) error {
	ns, err := p.namespace(ctx, p.seen, a.Name)
	if err != nil {
		return err
	}
	q := question{consumer: p.consumer, request: a.NamespaceRequest, name: p.name, home: p.Namespace, namespace: stateOf(ns)}
	a.verdict = decide(q)
	p.reserved[a.Name] = q.belongs() && q.namespace.consent == v1alpha1.ConsentCreated
	if a.step == nothing || a.step == release {
		if a.allowed || q.belongs() {
			return keep.Hold(ctx, p.live, a.NamespaceRequest, v1alpha1.NamespaceRequestFinalizer)
		}
		return nil
	}
	// What is about to be done depends on more than the cache may know yet.
	if q.full, err = p.full(ctx); err != nil {
		return err
	}
	if !q.full {
		if ns, err = p.namespace(ctx, p.live, a.Name); err != nil {
			return err
		}
		q.namespace = stateOf(ns)
	}
	if a.verdict = decide(q); !a.allowed {
		return nil
	}
	if err := keep.Hold(ctx, p.live, a.NamespaceRequest, v1alpha1.NamespaceRequestFinalizer); err != nil {
		return err
	}
	switch a.step {
	case create:
		err = p.createNamespace(ctx, a)
	case take:
		err = p.takeNamespace(ctx, a, ns)
	}
	if err == nil {
		p.held[a.Name] = true
	}
	return err
}

// grant makes the consumer's rights what they are to be, and returns when to look again at those that can't be handed out; zero:
// there are none.
func (p *pass) grant(ctx context.Context) (again time.Duration) {
	p.dropLacking()
	failures := p.handOut(ctx)
	for _, err := range failures {
		if !apierrors.IsForbidden(err) {
			continue
		}
		switch found, err := p.findLacking(ctx); {
		case err != nil:
			p.fail(err)
		case found:
			p.dropLacking()
			failures = p.handOut(ctx)
		}
		break
	}
	for _, a := range p.requests {
		if err := cmp.Or(failures[a.Name], failures[everywhere]); err != nil && a.failed == nil {
			a.failed = err
		}
	}
	for _, err := range failures {
		p.fail(err)
	}
	return p.reportLacking()
}

// handOut makes all rights of the consumer what they are to be, and removes all others. The errors are by namespace: one that fails keeps no
// other waiting.
func (p *pass) handOut(ctx context.Context) (failures map[string]error) {
	rules := map[string][]rbacv1.PolicyRule{}
	if p.consumer != nil {
		granted := map[string][]v1alpha1.RequestedResource{}
		for _, a := range p.requests {
			if a.DeletionTimestamp == nil && a.allowed && a.failed == nil {
				granted[a.Name] = a.granted
			}
		}
		rules = rbac.Consumer(p.own, granted)
	}
	failures = p.revoke(ctx, rules)
	for _, namespace := range slices.Sorted(maps.Keys(rules)) {
		if err := p.allow(ctx, namespace, rules[namespace]); err != nil {
			failures[namespace] = err
		}
	}
	return failures
}

// leave takes back what requests that are being deleted got, and what owners do not give any more, and lets a Consumer go that
// has no rights any more.
func (p *pass) leave(ctx context.Context) {
	rightsLeft := len(p.errs) > 0
	for _, a := range p.requests {
		deleted := a.DeletionTimestamp != nil
		if a.failed != nil || !deleted && a.step != release {
			continue
		}
		gone, err := true, error(nil)
		if !p.foreign {
			gone, err = p.giveBack(ctx, a)
		}
		if err == nil && gone && deleted {
			err = keep.LetGo(ctx, p.live, a.NamespaceRequest, v1alpha1.NamespaceRequestFinalizer)
		}
		if err != nil {
			a.failed = err
			p.fail(err)
		}
	}
	if p.leaving != nil && p.leaving.DeletionTimestamp != nil && !rightsLeft {
		if err := keep.LetGo(ctx, p.live, p.leaving, v1alpha1.ConsumerFinalizer); err != nil {
			p.fail(err)
		}
	}
}

// clear removes what is left of a consumer that is gone, and asks for nothing any more: its rights, and its own namespace.
func (p *pass) clear(ctx context.Context) error {
	for _, err := range p.revoke(ctx, nil) {
		return err
	}
	return p.deleteOwnNamespace(ctx)
}

// full reports whether the consumer has as many namespaces as it may. It reads live: a cache may not know yet of one that was
// just made.
func (p *pass) full(ctx context.Context) (bool, error) {
	if p.held == nil {
		list := &corev1.NamespaceList{}
		if err := p.live.List(ctx, list, client.MatchingLabels{boundary.LabelOrigin: p.name}); err != nil {
			return false, fmt.Errorf("counting the namespaces of consumer %s: %w", p.name, err)
		}
		p.held = map[string]bool{}
		for _, ns := range list.Items {
			p.held[ns.Name] = true
		}
	}
	return len(p.held) >= int(p.consumer.Spec.Namespaces.Max), nil
}
