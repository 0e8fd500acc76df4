package installation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/install"
)

// applyAll goes through the phases. As long as this revision was not there as a whole, each one waits for the one before;
// after that each object is put back by itself.
func (p *pass) applyAll(ctx context.Context) error {
	whole := p.i.Status.Revision == p.bundle.Revision || p.dry != nil
	for _, phase := range p.bundle.Phases {
		if !whole && !p.done() {
			return nil
		}
		for _, object := range phase.Objects {
			if waitsFor := p.callees(object.Unstructured); phase.Name == install.PhaseWebhooks && len(waitsFor) > 0 && p.live(object.Unstructured) == nil && p.dry == nil {
				p.waits = append(p.waits, fmt.Sprintf("%s to be available, before %s", fewOf(waitsFor), keyOf(object.Unstructured)))
				continue
			}
			if err := p.settle(ctx, object, phase.Name); err != nil {
				return err
			}
		}
		switch phase.Name {
		case install.PhaseNamespaces:
			for _, anchor := range p.bundle.Anchors {
				if err := p.settleAnchor(ctx, anchor); err != nil {
					return err
				}
			}
		case install.PhaseCRDs:
			p.establish(phase.Objects)
		}
	}
	return nil
}

// settleAnchor makes sure of the anchor of a namespace, which owns what is installed there.
func (p *pass) settleAnchor(ctx context.Context, anchor *unstructured.Unstructured) error {
	if err := p.settle(ctx, install.Object{Unstructured: anchor}, ""); err != nil {
		return err
	}
	if live := p.live(anchor); p.stamp.on(live) && live.GetDeletionTimestamp() == nil {
		p.anchors[anchor.GetNamespace()] = live
	} else if p.dry != nil {
		p.anchors[anchor.GetNamespace()] = anchor // without UID
	}
	return nil
}

// establish waits for the kinds that the manifests define to be served.
func (p *pass) establish(crds []install.Object) {
	for _, crd := range crds {
		live := p.live(crd.Unstructured)
		switch {
		case live == nil || live.GetDeletionTimestamp() != nil: // that is told of already
		case !cluster.HasCondition(live, "Established"):
			p.waits = append(p.waits, fmt.Sprintf("%s to be established", keyOf(crd.Unstructured)))
		}
	}
}

// settle does what is to be done about one object now. The error is one that ends the pass.
func (p *pass) settle(ctx context.Context, object install.Object, phase install.PhaseName) error {
	key := keyOf(object.Unstructured)
	gvk := object.GroupVersionKind()
	resource, served := p.resources[gvk]
	if !served && p.dry != nil {
		p.dry.add(string(create), install.EntryOf(object.Unstructured), "once its kind is served")
		return nil
	}
	if !served {
		p.waits = append(p.waits, fmt.Sprintf("%s to be served", gvk.GroupKind()))
		p.place.kinds.forget(gvk)
		p.soon(time.Second)
		return nil
	}
	if unseen, ok := p.unseen[resource.GroupVersionResource]; ok {
		p.forbidden = p.forbidden || unseen.reason == v1alpha1.ReasonForbidden
		p.faults = append(p.faults, fmt.Sprintf("%s: %s", resource.GroupResource(), unseen.message))
		return nil
	}
	var owner *unstructured.Unstructured
	if namespace := object.GetNamespace(); namespace != "" && phase != "" {
		if owner = p.anchors[namespace]; owner == nil {
			p.waits = append(p.waits, fmt.Sprintf("the anchor in namespace %s", namespace))
			return nil
		}
	}
	q := question{
		want: object.Unstructured, body: stampBody(object.Unstructured, p.stamp, p.r.o.Hub, owner), live: p.live(object.Unstructured), stamp: p.stamp,
		adopt: p.adopts(key), once: object.Once, shared: object.Shared, manager: p.mergeManager(),
	}
	if q.live == nil && p.dry == nil {
		q.live = p.blocker(resource, key)
	}
	if q.once {
		p.runs[key.String()] = true
		q.ran = p.ran[key.String()] == object.Hash
	}
	d := decide(q)
	if p.dry != nil {
		p.dry.tell(p, resource, q, d)
		return p.dry.err
	}
	// What carries no label of ours is not seen: the server tells whether there is anything of that name.
	for range 2 {
		found, err := p.do(ctx, resource, key, q, d)
		if err != nil {
			return err
		}
		if found == nil {
			break
		}
		q.live = found
		d = decide(q)
	}
	if q.once && p.stamp.on(p.live(object.Unstructured)) && d.action != wait && d.action != replace {
		p.ran[key.String()] = object.Hash
	}
	return nil
}

// do does what was decided on an object. found is what is there where nothing was thought to be: it is to be decided anew.
func (p *pass) do(ctx context.Context, resource cluster.Resource, key objectKey, q question, d decision) (found *unstructured.Unstructured, err error) {
	switch d.action {
	case nothing:
		p.tries.calm(key)
		return nil, nil
	case wait:
		p.waits = append(p.waits, fmt.Sprintf("%s: %s", key, d.why))
		if !p.stamp.on(q.live) && !q.shared {
			p.blocking[p.blockKey(resource, key)] = true
		}
		return nil, nil
	case refuse:
		p.refused = append(p.refused, fmt.Sprintf("%s: %s", key, d.why))
		p.blocking[p.blockKey(resource, key)] = true
		return nil, nil
	}
	if d.action == update && p.idle[key] == idleAt(q) {
		return nil, nil // the cluster has it as we would write it, whatever its managedFields tell
	}
	if text, answer, due := p.tries.barred(key, hashOf(q.body), q.live); due > 0 {
		p.soon(due)
		if text == "" {
			p.fights = append(p.fights, fmt.Sprintf("%s: %s", key, d.why))
		} else {
			p.faults, p.forbidden = append(p.faults, text), p.forbidden || answer == boundary.NotPermitted
		}
		return nil, nil
	}
	if d.action == replace {
		err = p.mayWrite(ctx)
		if err == nil {
			err = p.erase(ctx, resource, q.live)
		}
		if err == nil {
			p.waits = append(p.waits, fmt.Sprintf("%s to be gone: %s", key, d.why))
			p.soon(time.Second)
			return nil, nil
		}
		return nil, p.answered(ctx, resource, key, q, boundary.OpDelete, err)
	}
	manager := boundary.FieldManager
	if d.action == merge {
		manager = q.manager
	}
	if err := p.mayWrite(ctx); err != nil {
		return nil, err
	}
	object, err := p.send(ctx, resource, d.body, manager)
	op := boundary.OpUpdate
	if d.action == create {
		op = boundary.OpCreate
	}
	if answer, _ := boundary.Classify(op, err); answer == boundary.Exists {
		return p.get(ctx, resource, key.namespace, key.name)
	}
	if err != nil {
		return nil, p.answered(ctx, resource, key, q, op, err)
	}
	p.r.o.Logger.Debug("Applied", "installation", p.name, "object", key, "action", d.action, "why", d.why)
	p.fresh[key] = object
	p.tries.wrote(key)
	if q.live != nil && object.GetResourceVersion() == q.live.GetResourceVersion() {
		p.idle[key] = idleAt(q)
		return nil, nil
	}
	if p.i.Status.Revision == p.bundle.Revision && !q.adopt {
		p.restored = append(p.restored, key.String())
	}
	return nil, nil
}

// idleAt names a state of an object and of what is wanted of it, in which a write changed nothing.
func idleAt(q question) string { return q.live.GetResourceVersion() + " " + hashOf(q.body) }

// adopts reports whether an existing object may be taken over.
func (p *pass) adopts(key objectKey) bool {
	return slices.Contains(p.i.Spec.Adopt, v1alpha1.AdoptRef{Group: key.group, Kind: key.kind, Namespace: key.namespace, Name: key.name})
}

// mergeManager owns what is put on namespaces that are another's. A component is on a cluster once.
func (p *pass) mergeManager() string { return boundary.FieldManager + "-" + p.i.Spec.Component }

// answered takes in an answer to a write that is not "done". The error is one that ends the pass.
func (p *pass) answered(ctx context.Context, resource cluster.Resource, key objectKey, q question, op boundary.Operation, err error) error {
	if errors.Is(err, errLost) {
		return err
	}
	answer, after := boundary.Classify(op, err)
	text := fmt.Sprintf("%s: %s", key, p.words(schema.GroupVersionKind{Group: key.group, Version: "v1", Kind: key.kind}, answer, err))
	switch answer {
	case boundary.Stale, boundary.Gone:
		p.waits = append(p.waits, key.String()+", which changed just now")
		p.soon(time.Second)
		return nil
	case boundary.NamespaceMissing:
		p.waits = append(p.waits, fmt.Sprintf("namespace %s, which is not there", key.namespace))
		p.soon(5 * time.Second)
		return nil
	case boundary.NamespaceTerminating:
		p.waits = append(p.waits, fmt.Sprintf("namespace %s, which is being deleted", key.namespace))
		p.soon(5 * time.Second)
		return nil
	case boundary.NotServed:
		p.place.kinds.forget(resource.GroupVersion().WithKind(resource.Kind))
		p.waits = append(p.waits, fmt.Sprintf("%s to be served", resource.GroupResource()))
		p.soon(time.Second)
		return nil
	case boundary.Unauthenticated:
		return fmt.Errorf("%s: %w", key, err)
	case boundary.Unknown:
		if !ofObject(err) {
			return fmt.Errorf("%s: %w", key, err)
		}
		if p.takeOwnWebhookOut(ctx, err) {
			text += "; this webhook is of the component itself, is not up, and is taken out until it is"
		}
	case boundary.NotPermitted:
		p.forbidden = true
	}
	p.faults = append(p.faults, text)
	p.soon(p.tries.failed(key, hashOf(q.body), q.live, text, answer, after))
	return nil
}

// ofObject reports whether an error of which it is not known whether the write happened is about the object, and not about the
// cluster: an admission webhook that does not answer, a value that can't be decoded.
func ofObject(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError
}

// words are what is told of an answer; it shows no values of what may hold secrets (F4).
func (p *pass) words(gvk schema.GroupVersionKind, answer boundary.Answer, err error) string {
	return redacted(err, answer, p.secret || boundary.HoldsSecrets(gvk))
}
