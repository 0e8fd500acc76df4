package installation

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/members"
	"isthmus.dev/isthmus/internal/install"
)

// Plan is what an Installation would change now.
type Plan struct {
	Installation string `json:"installation"`
	// Server is the cluster that it goes to, Namespace the destination namespace.
	Server    string `json:"server,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Changes: something would be written.
	Changes bool     `json:"changes"`
	Entries []Change `json:"entries"`
	// Unchanged counts the objects that are as they should be.
	Unchanged int `json:"unchanged"`
	// Stopped is why not everything could be looked at, or nothing would be done; empty: nothing is in the way.
	Stopped string `json:"stopped,omitempty"`
}

// Change is what would become of one object.
type Change struct {
	// Action is create, update, merge, replace, delete, release, refuse or wait.
	Action string                  `json:"action"`
	Object v1alpha1.InventoryEntry `json:"object"`
	Name   string                  `json:"-"`
	Why    string                  `json:"why,omitempty"`
	// Refused is why the cluster would not have it; Untried why it was not asked.
	Refused string `json:"refused,omitempty"`
	Untried string `json:"untried,omitempty"`
}

// Rehearse says what an Installation would change if the controller looked at it now, and changes nothing. It decides as the
// controller does, and asks the cluster for a dry run of each write.
func Rehearse(ctx context.Context, o Options, name types.NamespacedName) (*Plan, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	hub, err := client.New(o.Local.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client of the local cluster: %w", err)
	}
	i := &v1alpha1.Installation{}
	if err := hub.Get(ctx, name, i); err != nil {
		return nil, fmt.Errorf("reading Installation %s: %w", name, err)
	}
	if o.LocalUID, err = o.Local.UID(ctx); err != nil {
		return nil, err
	}
	r := &Installer{o: o, client: hub, ctx: ctx, workers: map[types.NamespacedName]*worker{}, places: map[types.NamespacedName]*place{}}
	r.member = r.reach
	if ref := refOf(i); ref != local {
		reached := members.Reach(ctx, members.Options{Local: o.Local, Providers: o.Providers, UserAgent: o.UserAgent, Logger: o.Logger}, map[types.NamespacedName]bool{ref: true})
		r.member = func(types.NamespacedName) members.Member { return reached[ref] }
	}
	w := newWorker(r, name)
	defer w.stop()
	p := newPass(w, i)
	p.dry = &rehearsal{ctx: ctx, plan: &Plan{Installation: name.String(), Namespace: p.namespace, Entries: []Change{}}}
	if i.DeletionTimestamp != nil {
		p.dry.plan.Stopped = "it is being deleted: its status says what is left"
		return p.dry.plan, nil
	}
	err = p.install(ctx)
	p.dry.plan.Server = p.i.Status.Server
	switch {
	case err == nil:
	case errors.Is(err, errHalt):
		p.dry.plan.Stopped = stopOf(p)
	default:
		return nil, err
	}
	return p.dry.plan, nil
}

// stopOf says why a rehearsal ended early.
func stopOf(p *pass) string {
	for _, v := range []verdict{p.applied, p.resolved} {
		if v.reason != "" && v.status != metav1.ConditionTrue && v != unknownTarget {
			return v.reason + ": " + v.message
		}
	}
	return "it is not known yet what is there"
}

// rehearsal takes the place of writes and watches in a pass that only looks.
type rehearsal struct {
	ctx   context.Context
	plan  *Plan
	found map[objectKey]*unstructured.Unstructured
	err   error
}

func (r *rehearsal) add(action string, e v1alpha1.InventoryEntry, why string) *Change {
	r.plan.Changes = r.plan.Changes || action != string(refuse) && action != string(wait)
	r.plan.Entries = append(r.plan.Entries, Change{Action: action, Object: e, Name: keyOfEntry(e).String(), Why: why})
	return &r.plan.Entries[len(r.plan.Entries)-1]
}

// live reads an object, once.
func (r *rehearsal) live(p *pass, resource cluster.Resource, key objectKey) *unstructured.Unstructured {
	if object, ok := r.found[key]; ok {
		return object
	}
	object, err := p.get(r.ctx, resource, key.namespace, key.name)
	if err != nil {
		r.err = errors.Join(r.err, err)
	}
	if r.found == nil {
		r.found = map[objectKey]*unstructured.Unstructured{}
	}
	r.found[key] = object
	return object
}

// tell takes in what was decided on an object, with what would be written.
func (r *rehearsal) tell(p *pass, resource cluster.Resource, q question, d decision) {
	if d.action == nothing {
		r.plan.Unchanged++
		return
	}
	change := r.add(string(d.action), install.EntryOf(q.want), d.why)
	if d.body == nil {
		return
	}
	object := &unstructured.Unstructured{Object: d.body}
	for _, owner := range object.GetOwnerReferences() {
		if owner.UID == "" {
			change.Untried = "its anchor is not there yet"
			return
		}
	}
	manager := boundary.FieldManager
	if d.action == merge {
		manager = q.manager
	}
	_, err := p.cluster.Dynamic().Resource(resource.GroupVersionResource).Namespace(object.GetNamespace()).
		Apply(r.ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: manager, Force: true, DryRun: []string{metav1.DryRunAll}})
	op := boundary.OpUpdate
	if d.action == create {
		op = boundary.OpCreate
	}
	switch answer, _ := boundary.Classify(op, err); answer {
	case boundary.Done:
	case boundary.NamespaceMissing:
		change.Untried = "its namespace is not there yet"
	case boundary.NotServed:
		change.Untried = "its kind is not served yet"
	default:
		change.Refused = p.words(q.want.GroupVersionKind(), answer, err)
	}
}

// remove takes in what the manifests do not have any more.
func (r *rehearsal) remove(p *pass, entries []v1alpha1.InventoryEntry) error {
	for _, step := range install.Order(p.i.Spec.Component, entries) {
		for _, e := range step {
			resource, err := p.place.kinds.resource(r.ctx, p.cluster, gvkOf(e))
			if errors.Is(err, cluster.ErrNotServed) {
				continue
			}
			if err != nil {
				return err
			}
			live := r.live(p, resource, keyOfEntry(e))
			switch {
			case !p.stamp.on(live):
			case gvkOf(e).GroupKind() == crdKind && p.i.Spec.DeletionPolicy.CRDs != v1alpha1.CRDsDelete:
				r.add("release", e, "the manifests do not have it any more, and deletionPolicy.crds is Keep")
			default:
				r.add("delete", e, "the manifests do not have it any more")
			}
		}
	}
	return r.err
}
