package flow

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/store"
)

// crossed reports whether a rule that leaves deleted twins deleted has given the source a twin before (D4).
func (e *epoch) crossed(source *unstructured.Unstructured, st state) bool {
	if st.crossed == source.GetUID() {
		return true
	}
	for _, rule := range e.Rules {
		if rule.HoldsDeletedTwins() && e.Ledger.Crossed(rule.Name, source.GetUID()) {
			return true
		}
	}
	return false
}

// remember records that a source has a twin, where that matters once the twin is gone (D4). It is called when the twin
// was seen, not before it is made: a creation that failed would count as a twin that was deleted, and its source never
// cross. A twin that goes before it is recorded, with us down in between, is made once more.
func (e *epoch) remember(ctx context.Context, rule *boundary.Rule, source *unstructured.Unstructured) {
	uid := source.GetUID()
	if !rule.HoldsDeletedTwins() || e.Ledger.Crossed(rule.Name, uid) {
		return
	}
	key := types.NamespacedName{Namespace: source.GetNamespace(), Name: source.GetName()}
	e.states.with(key, func(s *state) { s.crossed = uid })
	if err := e.Ledger.RecordCrossed(ctx, rule.Name, uid); err != nil {
		if ctx.Err() == nil {
			e.log.Warn("The ledger can't be written", "error", err)
			e.queue.AddRateLimited(key)
		}
		return
	}
	e.states.with(key, func(s *state) { s.crossed = "" })
}

// forget drops what remember recorded of a source whose twin we deleted: should it be selected again, it crosses.
func (e *epoch) forget(ctx context.Context, in boundary.Input) {
	stamp, _ := boundary.ReadStamp(in.Twin)
	e.states.with(in.Key, func(s *state) { s.crossed = "" })
	for _, rule := range e.Rules {
		if rule.HoldsDeletedTwins() {
			e.forgetCrossed(ctx, rule, func(uid types.UID) bool { return uid == stamp.SourceUID })
		}
	}
}

// forgetGone drops from the ledger what is remembered of sources that are gone.
func (e *epoch) forgetGone(ctx context.Context, rule *boundary.Rule) {
	standing := map[types.UID]bool{}
	e.sources.Each("", func(source store.Item) bool {
		standing[source.UID()] = true
		return true
	})
	e.forgetCrossed(ctx, rule, func(uid types.UID) bool { return !standing[uid] })
}

func (e *epoch) forgetCrossed(ctx context.Context, rule *boundary.Rule, which func(types.UID) bool) {
	if err := e.Ledger.ForgetCrossed(ctx, rule.Name, which); err != nil && ctx.Err() == nil {
		e.log.Warn("The ledger can't be written", "error", err)
	}
}
