package boundary

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// AdoptOutcome is what is to become of a source's twin when those of a former system are taken over.
type AdoptOutcome string

// The outcomes.
const (
	// AdoptNone: no rule takes the source, or it goes without a twin.
	AdoptNone AdoptOutcome = ""
	// AdoptCreate: there is nothing to take over; a run creates the twin.
	AdoptCreate AdoptOutcome = "create"
	// AdoptOurs: it is ours already.
	AdoptOurs AdoptOutcome = "ours"
	// AdoptTake: it is to be taken over.
	AdoptTake AdoptOutcome = "adopt"
	// AdoptTidy: it is ours already, but the former manager still owns parts of it.
	AdoptTidy AdoptOutcome = "tidy"
	// AdoptRefuse: it is left alone.
	AdoptRefuse AdoptOutcome = "refuse"
)

// Adoption is what to do about the twin of a source.
type Adoption struct {
	Outcome AdoptOutcome
	// Why tells how it came about.
	Why string
	// Rule is the rule that takes the source.
	Rule *Rule
	// Body is the apply body of AdoptTake, bound to the object's state; Handover, when not nil, is applied first as
	// HandoverManager, without force (O3).
	Body, Handover map[string]any
	// Managers are the former field managers, to let go of afterwards (LetGo).
	Managers []string
}

// Adopt says whether what is at a source's place is taken over from a former system. Of the input it looks at what
// names the source, the place and what is there.
func Adopt(in Input, former Former) Adoption {
	chosen := chooseRule(in.Rules, in.Source, in.Naming, in.Stamped)
	if chosen.invalid {
		return Adoption{Outcome: AdoptRefuse, Why: chosen.reason}
	}
	rule := chosen.rule
	if rule == nil {
		return Adoption{}
	}
	out := func(outcome AdoptOutcome, format string, args ...any) Adoption {
		return Adoption{Outcome: outcome, Rule: rule, Why: fmt.Sprintf(format, args...)}
	}
	if _, err := in.Naming.Place(rule, in.Source); err != nil {
		return out(AdoptRefuse, "%v", err)
	}
	twin, going := in.Twin, terminating(in.Source)
	if twin == nil {
		if going {
			return Adoption{}
		}
		return out(AdoptCreate, "nothing is there: isthmus sync creates it")
	}
	switch in.Identity.Provenance(twin, in.Key) {
	case OursForThis:
		managers := former.managers(twin)
		if twin.GetDeletionTimestamp() == nil && LetGo(twin, rule, managers) != nil {
			tidy := out(AdoptTidy, "was adopted already, but %s still owns parts of it", strings.Join(managers, ", "))
			tidy.Managers = managers
			return tidy
		}
		return out(AdoptOurs, "is this Isthmus's already")
	case OursForAnother:
		stamp, _ := ReadStamp(twin)
		return out(AdoptRefuse, "is the twin of %s, which came first", FormatName(stamp.Source))
	}
	claim, marked := former.Claim(twin, rule.Direction, in.Identity)
	switch {
	case !marked:
		return out(AdoptRefuse, "does not carry the marks of %s: delete or rename it to let this one cross", former)
	case claim.Stranger != "":
		return out(AdoptRefuse, "%s", claim.Stranger)
	case claim.Source != in.Key:
		return out(AdoptRefuse, "carries the marks of %s for another source, %s", former, FormatName(claim.Source))
	case !claim.of(in.Source):
		return out(AdoptRefuse, "came from an earlier object of this name (UID %s, now %s): delete it, and isthmus sync creates it anew", claim.UID, in.Source.GetUID())
	case going:
		return out(AdoptRefuse, "is of a source that is being deleted: wait until that is gone, or delete it too")
	case terminating(twin):
		return out(AdoptCreate, "is being deleted: isthmus sync creates it anew when it is gone")
	}
	want, err := desire(&in, rule)
	if err != nil {
		return out(AdoptRefuse, "a reference can't be translated, so it does not cross: %v", err)
	}
	a := out(AdoptTake, "is of %s", former)
	if former.Replaced != "" && claim.UID == "" {
		a.Why += fmt.Sprintf(", from the cluster that this one replaced (UID of kube-system %s)", former.Replaced)
	}
	a.Body, a.Handover = Bind(want.body, twin), handover(twin, in.Place, want.remoteOwned)
	a.Managers = former.managers(twin)
	if left := stays(twin, rule, want, a.Managers); len(left) > 0 {
		a.Why += fmt.Sprintf("; keeps what the source does not have: %s", strings.Join(left, ", "))
	}
	return a
}

// Elsewhere says whether an object at another place than its source's is the former system's copy of it.
func (f Former) Elsewhere(obj, source *unstructured.Unstructured, direction Direction, id Identity) bool {
	claim, ok := f.Claim(obj, direction, id)
	return ok && claim.of(source)
}

// stays returns what the former managers own alone, outside what the target side owns and what is taken off with them,
// and the source does not have: nobody owns it from then on.
func stays(twin *unstructured.Unstructured, rule *Rule, want desired, managers []string) (paths []string) {
	theirs, others, _ := split(twin, managers)
	theirs.Leaves().Difference(others).Iterate(func(at fieldpath.Path) {
		metadata := at[0].FieldName != nil && *at[0].FieldName == "metadata"
		field := func(i int, names ...string) bool {
			return len(at) > i && at[i].FieldName != nil && contains(names, *at[i].FieldName)
		}
		switch {
		case field(0, "status"):
		case metadata && (!field(1, "labels", "annotations") || len(at) != 3 || !rule.crosses(*at[2].FieldName)):
		case lookup(want.body, at) != nil || lookup(twin.Object, at) == nil:
		case slices.ContainsFunc(want.remoteOwned, func(p Path) bool { return leadsTo(p, at) }):
		default:
			paths = append(paths, at.String()[1:])
		}
	})
	return paths
}

// AdoptNamespace is the apply body by which a remote namespace that the former Isthmus created becomes this one's (N4);
// nil: it was not created by it.
func (f Former) AdoptNamespace(ns *unstructured.Unstructured, direction Direction, id Identity) map[string]any {
	origin, writer := rawText(ns, "labels", LabelOrigin), rawText(ns, "annotations", AnnotationWriter)
	if f.System != FormerOrigin || origin == "" || origin == id.Cluster && writer == id.Writer() || f.strange(origin, writer, direction, id) != "" {
		return nil
	}
	return Bind(id.NamespaceBody(ns.GetName()), ns)
}
