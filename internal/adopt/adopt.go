// Package adopt takes over, for one kind, the objects that another system carried across: it lists both sides, asks
// boundary.Adopt about each source, and does it.
package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/observe"
)

// Options say what is taken over.
type Options struct {
	// Flow is the flow of the kind, which does not run.
	Flow *flow.Flow
	// Former is the system whose objects are taken over.
	Former boundary.Former
	// Write does it; otherwise it is only told.
	Write bool
}

// Result is what became, or is to become, of an object.
type Result string

// The results.
const (
	// Create: the next run creates the twin.
	Create Result = "create"
	// Ours: it is ours already.
	Ours Result = "ours"
	// Adopt: it is to be taken over.
	Adopt Result = "adopt"
	// Adopted: it was taken over.
	Adopted Result = "adopted"
	// Left: the former system's, and no rule has a use for it where it is.
	Left Result = "left"
	// Refused: what is in a source's place is left alone.
	Refused Result = "refused"
	// Failed: what should have been done could not be.
	Failed Result = "failed"
)

// Row is one line of the report.
type Row struct {
	Kind   string `json:"kind"`
	Source string `json:"source,omitempty"`
	Twin   string `json:"twin,omitempty"`
	Result Result `json:"result"`
	Why    string `json:"why"`
}

// Run takes over the objects of a kind and tells about each. An error is one that keeps it from going on.
func Run(ctx context.Context, o Options, tell func(Row)) error {
	ground, err := o.Flow.Ground(ctx)
	if err != nil {
		return err
	}
	r := &run{Options: o, f: o.Flow, ground: ground, tell: tell}
	if r.sources, err = list(ctx, r.f.From.Cluster, ground.Source, ground.SourceScopes); err != nil {
		return err
	}
	if r.twins, err = list(ctx, r.f.To.Cluster, ground.Twin, ground.TwinScopes); err != nil {
		return err
	}
	r.index()
	for _, key := range slices.SortedFunc(maps.Keys(r.sources), compare) {
		if err := r.source(ctx, r.sources[key]); err != nil {
			return err
		}
	}
	r.orphans()
	return nil
}

type objects map[types.NamespacedName]*unstructured.Unstructured

// list lists a kind in all scopes.
func list(ctx context.Context, c *cluster.Cluster, r cluster.Resource, scopes []string) (objects, error) {
	all := objects{}
	for _, scope := range scopes {
		listed, _, err := c.List(ctx, r, scope, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, obj := range listed {
			all[nameOf(obj.Head)] = obj.Decode()
		}
	}
	return all, nil
}

// run is one run for one kind.
type run struct {
	Options
	f              *flow.Flow
	ground         *flow.Ground
	sources, twins objects
	// claimed are the former system's objects, by the name of their source; stamped the rules in the stamps of ours, or
	// else of the former Isthmus's.
	claimed map[types.NamespacedName][]*unstructured.Unstructured
	stamped map[types.NamespacedName]string
	tell    func(Row)
	// namespaces are those of the twins' side that were looked at.
	namespaces map[string]bool
}

func (r *run) index() {
	r.claimed, r.stamped, r.namespaces = map[types.NamespacedName][]*unstructured.Unstructured{}, map[types.NamespacedName]string{}, map[string]bool{}
	ours := map[types.NamespacedName]string{}
	for _, at := range slices.SortedFunc(maps.Keys(r.twins), compare) {
		twin := r.twins[at]
		if stamp, ok := r.f.Identity.StampOf(twin); ok {
			ours[stamp.Source] = stamp.Rule
		} else if claim, ok := r.Former.Claim(twin, r.f.Direction, r.f.Identity); ok && claim.Stranger == "" {
			r.claimed[claim.Source] = append(r.claimed[claim.Source], twin)
			r.stamped[claim.Source] = claim.Rule
		}
	}
	for source, rule := range ours {
		r.stamped[source] = rule
	}
}

// source settles one source. An error ends the run.
func (r *run) source(ctx context.Context, source *unstructured.Unstructured) error {
	source = source.DeepCopy()
	source.SetManagedFields(nil)
	key := nameOf(source)
	in := boundary.Input{
		Identity: r.f.Identity, Rules: r.f.Rules, Naming: r.f.Extent().Naming, Key: key, Source: source,
		Stamped: r.stamped[key], Undeclared: flow.Undeclared(r.ground.Schema, source.Object),
	}
	place, ok := boundary.Belongs(in.Rules, source, in.Naming, in.Stamped)
	if ok {
		in.Place, in.Twin = place, r.twins[place]
	}
	a := boundary.Adopt(in, r.Former)
	if a.Outcome == boundary.AdoptNone {
		return nil
	}
	row := r.row(in, a)
	if ok {
		if err := r.namespace(ctx, place.Namespace); err != nil {
			return err
		}
	}
	if r.Write && row.Result == Adopt {
		var err error
		if row, err = r.take(ctx, in); err != nil {
			return err
		}
	}
	r.tell(row)
	for _, twin := range r.claimed[key] {
		if nameOf(twin) == place || !r.Former.Elsewhere(twin, source, r.f.Direction, r.f.Identity) {
			continue
		}
		r.tell(Row{r.f.Name(), boundary.FormatName(key), boundary.FormatName(nameOf(twin)), Left, r.elsewhere(twin, place, a.Rule)})
	}
	return nil
}

// elsewhere says why the former system's copy of a source can't be taken over where it is, and what to do.
func (r *run) elsewhere(twin *unstructured.Unstructured, place types.NamespacedName, rule *boundary.Rule) string {
	if rule.HostNamespace != "" && twin.GetNamespace() == rule.HostNamespace {
		return fmt.Sprintf("is of %s under a name that can't be kept: in a shared host namespace each system ends names in a hash of its own, and here it is %s. "+
			"Before isthmus sync creates that, take off the finalizers that would undo what it stands for, and delete it", r.Former, boundary.FormatName(place))
	}
	return fmt.Sprintf("is of %s at another place than %s, where the file puts it: delete it when nothing uses it any more, or change the file and run this again",
		r.Former, boundary.FormatName(place))
}

var results = map[boundary.AdoptOutcome]Result{
	boundary.AdoptCreate: Create, boundary.AdoptOurs: Ours, boundary.AdoptTake: Adopt, boundary.AdoptTidy: Adopt, boundary.AdoptRefuse: Refused,
}

func (r *run) row(in boundary.Input, a boundary.Adoption) Row {
	twin := boundary.FormatName(in.Place)
	return Row{r.f.Name(), boundary.FormatName(in.Key), twin, results[a.Outcome], a.Why}
}

// failed is the row of something that could not be done; values of secret kinds are not shown (F4).
func (r *run) failed(in boundary.Input, what string, err error) Row {
	message := observe.Redact(err, boundary.HoldsSecrets(r.f.Kind))
	return Row{r.f.Name(), boundary.FormatName(in.Key), boundary.FormatName(in.Place), Failed, what + ": " + message}
}

// orphans tells of the former system's objects whose source is gone: no run will ever delete them.
func (r *run) orphans() {
	for _, source := range slices.SortedFunc(maps.Keys(r.claimed), compare) {
		listed := slices.Contains(r.ground.SourceScopes, "") || slices.Contains(r.ground.SourceScopes, source.Namespace)
		if r.sources[source] != nil || !listed {
			continue
		}
		for _, twin := range r.claimed[source] {
			if claim, _ := r.Former.Claim(twin, r.f.Direction, r.f.Identity); claim.Certain {
				r.tell(Row{r.f.Name(), boundary.FormatName(source), boundary.FormatName(nameOf(twin)), Left, fmt.Sprintf(
					"is of %s, and its source is gone: delete it when nothing uses it any more", r.Former)})
			}
		}
	}
}

// namespace takes over a namespace that the former Isthmus created: otherwise nothing could be created in it (N4).
func (r *run) namespace(ctx context.Context, name string) error {
	if name == "" || r.Former.System != boundary.FormerOrigin || r.namespaces[name] {
		return nil
	}
	r.namespaces[name] = true
	client := r.f.To.Dynamic().Resource(namespaceResource)
	for range attempts {
		ns, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s cluster: reading namespace %s: %w", r.f.To.Role(), name, err)
		}
		body := r.Former.AdoptNamespace(ns, r.f.Direction, r.f.Identity)
		if body == nil {
			return nil
		}
		row := Row{"Namespace", "", name, Adopt, fmt.Sprintf("was created for %s", r.Former)}
		switch {
		case !r.f.CreateNamespaces:
			row.Result = Refused
			row.Why += ", so nothing can be created in it: set createNamespaces: true and apply the output of isthmus rbac to adopt it"
		case r.Write:
			_, err = apply(ctx, client, name, body, boundary.FieldManager, true)
			if answer, _ := boundary.Classify(boundary.OpUpdate, err); answer == boundary.Stale {
				continue
			}
			row.Result = Adopted
			if err != nil {
				row.Result, row.Why = Failed, err.Error()
			}
		}
		r.tell(row)
		return nil
	}
	return errors.New("namespace " + name + " keeps changing: run this again")
}

func nameOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func compare(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
