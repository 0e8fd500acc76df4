package installation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/install"
)

// install makes the cluster have what the manifests say, as far as that can be done now.
func (p *pass) install(ctx context.Context) error {
	ctx, err := p.resolve(ctx)
	if err != nil {
		return err
	}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	// The lock tells of what is there besides.
	if err := p.readLock(); err != nil {
		return err
	}
	if err := p.claim(); err != nil {
		return err
	}
	if err := p.see(ctx, p.wanted()); err != nil {
		return err
	}
	if err := p.take(ctx); err != nil {
		return err
	}
	if err := p.applyAll(ctx); err != nil {
		return err
	}
	if p.done() {
		if err := p.prune(ctx); err != nil {
			return err
		}
	}
	if p.dry != nil {
		return nil
	}
	p.conclude()
	if !maps.Equal(p.blocks, p.blocking) {
		p.blocks = p.blocking
		p.soon(time.Millisecond) // the next pass watches what is in the way, so that it goes on when that goes
	}
	return p.note(ctx)
}

// done reports whether all that was looked at is as it should be.
func (p *pass) done() bool { return len(p.refused)+len(p.faults)+len(p.waits)+len(p.fights) == 0 }

// prepare makes the bundle out of the manifests. Nothing is removed because they are missing.
func (p *pass) prepare(ctx context.Context) error {
	sources, state, err := gather(p.i, p.r.hubEyes(p.i))
	invalid := func(reason string, err error) error {
		p.applied = verdict{metav1.ConditionFalse, reason, err.Error()}
		if p.i.Status.Revision == "" {
			p.available = verdict{metav1.ConditionFalse, v1alpha1.ReasonNotApplied, "Nothing is installed yet"}
		}
		return errHalt
	}
	switch {
	case errors.Is(err, errNotRead):
		return errHalt // the watch tells
	case errors.As(err, new(install.MissingError)):
		return invalid(v1alpha1.ReasonManifestsMissing, err)
	case err != nil:
		return invalid(p.reasonOf(err), err)
	case p.made.state == state:
		p.bundle = p.made.bundle
		return nil
	}
	known := &scopes{known: map[schema.GroupKind]bool{}, missing: map[schema.GroupKind]bool{}}
	for {
		bundle, err := install.Prepare(sources, install.Options{
			Component: p.i.Spec.Component, Namespace: p.namespace, Hub: p.r.o.Hub,
			InstallationNamespace: p.i.Namespace, InstallationName: p.i.Name, UID: string(p.i.UID), Spec: p.i.Spec, Scoped: known.of,
		})
		learnt, askErr := known.learn(ctx, p.place.kinds, p.cluster)
		switch {
		case askErr != nil:
			return askErr
		case learnt:
			continue
		case err != nil:
			p.soon(30 * time.Second) // a kind that is not served may be by then
			return invalid(v1alpha1.ReasonManifestsInvalid, err)
		}
		p.bundle, p.made = bundle, prepared{state, bundle}
		return nil
	}
}

// wanted returns what the bundle has: its inventory, and the namespaces that it goes to.
func (p *pass) wanted() []v1alpha1.InventoryEntry {
	entries := p.bundle.Inventory()
	for _, namespace := range p.bundle.Phases[0].Objects {
		entries = append(entries, install.EntryOf(namespace.Unstructured))
	}
	return union(entries, nil)
}

// conclude says what came of the pass.
func (p *pass) conclude() {
	no := func(reason, format string, args ...any) {
		p.applied = verdict{metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
	}
	switch {
	case len(p.refused) > 0:
		no(v1alpha1.ReasonObjectsExist, "%s. It is not touched: remove it, or list it under spec.adopt for it to be taken over", fewOf(p.refused))
	case len(p.faults) > 0:
		reason := v1alpha1.ReasonApplyFailed
		if p.forbidden {
			reason = v1alpha1.ReasonForbidden
		}
		no(reason, "%s", fewOf(compact(p.faults)))
	case len(p.fights) > 0:
		no(v1alpha1.ReasonContention, "Others undo what is written, so that it is written once a minute only: %s", fewOf(p.fights))
	case len(p.waits) > 0:
		no(v1alpha1.ReasonWaiting, "It waits for %s", fewOf(compact(p.waits)))
	default:
		p.applied = verdict{metav1.ConditionTrue, v1alpha1.ReasonApplied, fmt.Sprintf("%d objects are there as the manifests say", len(p.wanted()))}
		p.i.Status.Revision = p.bundle.Revision
	}
	p.available = p.health()
}
