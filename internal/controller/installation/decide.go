package installation

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
)

// action is what becomes of one object.
type action string

// The actions.
const (
	// nothing: it is as it should be.
	nothing action = "nothing"
	// create: apply it, unless anything of that name exists.
	create action = "create"
	// update: apply it to the object that is there.
	update action = "update"
	// merge: put labels and annotations on an object that is another's.
	merge action = "merge"
	// replace: delete it, for it can't be changed, and create it once it is gone.
	replace action = "replace"
	// refuse: something that is not ours is in the way.
	refuse action = "refuse"
	// wait: it has to go, or to end, first.
	wait action = "wait"
)

// question is all that the fate of one object depends on.
type question struct {
	// want is the object as its bundle has it, body its apply body.
	want *unstructured.Unstructured
	body map[string]any
	// live is what is there; nil: nothing.
	live  *unstructured.Unstructured
	stamp stamp
	// adopt: what is there may be taken over, whoever's it is.
	adopt bool
	// once: it runs once per content; ran: it did with this one.
	once, ran bool
	// shared: it may be another's, and then gets labels and annotations only. manager owns these.
	shared  bool
	manager string
}

// decision is what becomes of it, why, and what is applied.
type decision struct {
	action action
	why    string
	body   map[string]any
}

// decide says what becomes of one object. It is pure.
func decide(q question) decision {
	switch {
	case q.live == nil && q.once && q.ran:
		return decision{nothing, "it ran, and is gone since", nil}
	case q.live == nil:
		return decision{create, "it is not there", boundary.CreateOnly(q.body)}
	case q.live.GetDeletionTimestamp() != nil:
		return decision{wait, "it is being deleted" + heldBy(q.live), nil}
	case !q.stamp.on(q.live) && q.shared:
		return mergeInto(q)
	case !q.stamp.on(q.live) && q.adopt:
		return decision{update, "it is taken over", boundary.Bind(q.body, q.live)}
	case !q.stamp.on(q.live):
		return decision{refuse, "it exists already, and is " + whose(q.live, q.stamp), nil}
	}
	changed := q.live.GetAnnotations()[v1alpha1.InstalledContentAnnotation] != hashOf(q.body)
	switch {
	case q.once && changed && !ended(q.live):
		return decision{wait, "it runs with its former content", nil}
	case q.once && changed:
		return decision{replace, "it ran with its former content", nil}
	case changed:
		return decision{update, "the manifests changed", boundary.Bind(q.body, q.live)}
	case q.once:
		return decision{nothing, "", nil} // what it does and has done is its own
	}
	if path, lacking := boundary.Lacking(q.body, q.live, boundary.FieldManager); lacking {
		return decision{update, path + " was changed by " + latestOther(q.live), boundary.Bind(q.body, q.live)}
	}
	return decision{nothing, "", nil}
}

// mergeInto decides on an object that is another's and gets labels and annotations.
func mergeInto(q question) decision {
	body := mergeBody(q.want)
	owned, any := boundary.AppliedBy(q.live, q.manager)
	_, lacking := boundary.Lacking(body, q.live, q.manager)
	switch {
	case !any && noKeys(body):
		return decision{nothing, "", nil}
	case lacking && !noKeys(body):
		return decision{merge, "labels or annotations are missing", boundary.Bind(body, q.live)}
	case !owned.Difference(keysOf(body)).Empty():
		return decision{merge, "labels or annotations are not wanted any more", boundary.Bind(body, q.live)}
	}
	return decision{nothing, "", nil}
}

// keysOf returns the places of a body's labels and annotations.
func keysOf(body map[string]any) *fieldpath.Set {
	set := &fieldpath.Set{}
	metadata, _ := body["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		for key := range extended(metadata[field]) {
			set.Insert(fieldpath.MakePathOrDie("metadata", field, key))
		}
		set.Insert(fieldpath.MakePathOrDie("metadata", field))
	}
	return set
}

func noKeys(body map[string]any) bool {
	metadata, _ := body["metadata"].(map[string]any)
	return len(extended(metadata["labels"])) == 0 && len(extended(metadata["annotations"])) == 0
}

// whose says who an object belongs to that has not our stamp.
func whose(object *unstructured.Unstructured, ours stamp) string {
	switch s := stampOn(object); {
	case s == "":
	case s.String() == ours.String():
		return "that of a former Installation of this name, which was let go"
	default:
		return "that of " + s.String()
	}
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" {
			return fmt.Sprintf("not ours (its first field manager is %q)", entry.Manager)
		}
	}
	return "not ours"
}

// latestOther names the field manager, other than us, that wrote an object last.
func latestOther(object *unstructured.Unstructured) string {
	name, at := "another", metav1.Time{}
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" && entry.Manager != boundary.FieldManager && entry.Time != nil && at.Before(entry.Time) {
			name, at = fmt.Sprintf("field manager %q", entry.Manager), *entry.Time
		}
	}
	return name
}

// heldBy names the finalizers of an object that is being deleted.
func heldBy(object *unstructured.Unstructured) string {
	if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
		return " and held by its finalizers " + strings.Join(finalizers, ", ")
	}
	return ""
}

// ended reports whether what runs to completion has done so: a Job says it by a condition.
func ended(object *unstructured.Unstructured) bool {
	return cluster.HasCondition(object, "Complete") || cluster.HasCondition(object, "Failed")
}
