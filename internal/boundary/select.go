package boundary

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// The keys of the policies (S3), under each prefix that counts.
const (
	allowReflection = "allow-reflection"
	skipReflection  = "skip-reflection"
)

var reflectionPrefixes = []string{Prefix, "liqo.io/"}

// copyKeys are the labels and annotations by which other systems mark their copies (S4).
var copyKeys = []string{
	"vcluster.loft.sh/managed-by", "vcluster.loft.sh/object-name", "vcluster.loft.sh/object-namespace",
	"vcluster.loft.sh/object-uid", "vcluster.loft.sh/object-host-name",
	"offloading.liqo.io/origin", "offloading.liqo.io/destination",
	"kupe.cloud/managed-by", "kupe.cloud/synced-from",
}

// Verdict is the outcome of a selection.
type Verdict int

// The outcomes.
const (
	NotSelected Verdict = iota
	// Invalid objects say contradictory or unreadable things about themselves: they do not cross, and a twin that
	// exists stays as it is (S3).
	Invalid
	Selected
)

// Selection is a verdict and the reason for it.
type Selection struct {
	Verdict Verdict
	Reason  string
}

// selectionChecks are what a source has to pass before a rule's policy is asked, in their order (S2, S4).
var selectionChecks = []struct {
	name string
	// fault says why the source is not taken; empty: it passes.
	fault func(r *Rule, source *unstructured.Unstructured, naming Naming) string
}{
	{"no copy itself", func(r *Rule, source *unstructured.Unstructured, _ Naming) string {
		if key, ok := copyMark(source, r.IncludeForeignCopies); ok {
			return fmt.Sprintf("it is a copy itself: it carries %s", key)
		}
		return ""
	}},
	{"counterpart of its namespace", func(r *Rule, source *unstructured.Unstructured, naming Naming) string {
		if !naming.Admits(r, source.GetNamespace()) {
			return fmt.Sprintf("namespace %s has no counterpart", source.GetNamespace())
		}
		return ""
	}},
	{"namespace filter", func(r *Rule, source *unstructured.Unstructured, _ Naming) string {
		if !r.Namespaces.Admits(source.GetNamespace()) {
			return fmt.Sprintf("rule %s does not admit namespace %s", r.Name, source.GetNamespace())
		}
		return ""
	}},
	{"label selector", func(r *Rule, source *unstructured.Unstructured, _ Naming) string {
		if !r.Selector.Empty() && !r.Selector.Matches(labels.Set(source.GetLabels())) {
			return fmt.Sprintf("its labels do not match the selector %q of rule %s", r.Selector, r.Name)
		}
		return ""
	}},
}

// Selects says whether a rule selects a source (S2, S3, S4).
func (r *Rule) Selects(source *unstructured.Unstructured, naming Naming) Selection {
	for _, c := range selectionChecks {
		if fault := c.fault(r, source, naming); fault != "" {
			return Selection{NotSelected, fault}
		}
	}
	return r.admits(source)
}

// SelectionStep is one check of whether a rule selects a source.
type SelectionStep struct {
	Check string
	Selection
}

// SelectionSteps returns the checks of Selects up to the one that settles it.
func (r *Rule) SelectionSteps(source *unstructured.Unstructured, naming Naming) (steps []SelectionStep) {
	for _, c := range selectionChecks {
		if fault := c.fault(r, source, naming); fault != "" {
			return append(steps, SelectionStep{c.name, Selection{NotSelected, fault}})
		}
		steps = append(steps, SelectionStep{c.name, Selection{Selected, ""}})
	}
	return append(steps, SelectionStep{fmt.Sprintf("policy %s", r.Policy), r.admits(source)})
}

// copyMark returns a key that marks the object as a copy: one of ours, or of another system unless those are included.
func copyMark(obj *unstructured.Unstructured, includeForeign bool) (string, bool) {
	// Read as they stand: a damaged value is a mark too.
	objLabels, annotations := rawMetadata(obj, "labels"), rawMetadata(obj, "annotations")
	marks := [][]string{stampKeys, copyKeys}
	if includeForeign {
		marks = marks[:1]
	}
	for _, keys := range marks {
		for _, key := range keys {
			_, inLabels := objLabels[key]
			_, inAnnotations := annotations[key]
			if inLabels || inAnnotations {
				return key, true
			}
		}
	}
	return "", false
}

// admits applies the rule's policy (S3).
func (r *Rule) admits(source *unstructured.Unstructured) Selection {
	if r.Policy == PolicyAll {
		return Selection{Selected, "rule " + r.Name + " selects it"}
	}
	annotations := source.GetAnnotations()
	allow, err := reflectionKey(annotations, allowReflection)
	if err != nil {
		return Selection{Invalid, err.Error()}
	}
	skip, err := reflectionKey(annotations, skipReflection)
	if err != nil {
		return Selection{Invalid, err.Error()}
	}
	switch {
	case allow != nil && skip != nil:
		return Selection{Invalid, bothSet(allow, skip).Error()}
	case r.Policy == PolicyAllowList && (allow == nil || !allow.value):
		return Selection{NotSelected, fmt.Sprintf("rule %s takes only objects annotated %s%s: \"true\"", r.Name, Prefix, allowReflection)}
	case r.Policy == PolicyDenyList && skip != nil && skip.value:
		return Selection{NotSelected, fmt.Sprintf("it is annotated %s: \"true\"", skip.key)}
	}
	return Selection{Selected, fmt.Sprintf("rule %s selects it", r.Name)}
}

// Wish returns what an object's own annotations say of its crossing, whatever a rule's policy: true, false, or nil where
// they say nothing. It is for what follows another object unless it says so itself (E1). The error is as in S3.
func Wish(annotations map[string]string) (*bool, error) {
	allow, err := reflectionKey(annotations, allowReflection)
	if err != nil {
		return nil, err
	}
	skip, err := reflectionKey(annotations, skipReflection)
	switch {
	case err != nil:
		return nil, err
	case allow != nil && skip != nil:
		return nil, bothSet(allow, skip)
	case allow != nil:
		return &allow.value, nil
	case skip != nil:
		crosses := !skip.value
		return &crosses, nil
	}
	return nil, nil
}

// Flag reports whether an annotation is set, under any of the prefixes that count. The error is as in S3.
func Flag(annotations map[string]string, name string) (bool, error) {
	value, err := reflectionKey(annotations, name)
	return value != nil && value.value, err
}

func bothSet(allow, skip *reflectionValue) error {
	return fmt.Errorf("annotations %s and %s are both set; keep one of them", allow.key, skip.key)
}

type reflectionValue struct {
	key   string
	value bool
}

// reflectionKey reads a key that is true or false under all prefixes; nil: it is not set.
func reflectionKey(annotations map[string]string, name string) (*reflectionValue, error) {
	var found *reflectionValue
	for _, prefix := range reflectionPrefixes {
		key := prefix + name
		text, ok := annotations[key]
		if !ok {
			continue
		}
		if text != "true" && text != "false" {
			return nil, fmt.Errorf("annotation %s is %q: expected \"true\" or \"false\"", key, text)
		}
		value := &reflectionValue{key, text == "true"}
		if found != nil && found.value != value.value {
			return nil, fmt.Errorf("annotations %s and %s contradict each other", found.key, value.key)
		}
		found = value
	}
	return found, nil
}

// choice is the rule that takes a source, or why none does.
type choice struct {
	rule *Rule // nil: none
	// invalid: the source is not to be touched, nor its twin; reason says why.
	invalid bool
	reason  string
}

// chooseRule finds the rule of the flow that takes the source (S5). stamped is the rule in the twin's stamp, or empty.
func chooseRule(rules []*Rule, source *unstructured.Unstructured, naming Naming, stamped string) choice {
	var selecting []*Rule
	invalid := ""
	reasons := make([]string, 0, len(rules))
	for _, rule := range rules {
		switch s := rule.Selects(source, naming); s.Verdict {
		case Invalid:
			if invalid == "" {
				invalid = s.Reason
			}
		case Selected:
			if rule.Name == stamped {
				return choice{rule: rule, reason: s.Reason}
			}
			selecting = append(selecting, rule)
		default:
			reasons = append(reasons, s.Reason)
		}
	}
	if invalid != "" {
		return choice{invalid: true, reason: invalid}
	}
	switch len(selecting) {
	case 0:
		return choice{reason: strings.Join(reasons, "; ")}
	case 1:
		return choice{rule: selecting[0], reason: fmt.Sprintf("rule %s selects it", selecting[0].Name)}
	}
	names := make([]string, len(selecting))
	for i, rule := range selecting {
		names[i] = rule.Name
	}
	return choice{invalid: true, reason: fmt.Sprintf(
		"rules %s all select it, so none takes it: make their selectors exclude each other", strings.Join(names, ", "))}
}

// Keeps reports whether a source matters to any of the rules, so that watchers need not keep the others (S1).
func Keeps(rules []*Rule, source *unstructured.Unstructured, naming Naming) bool {
	for _, rule := range rules {
		if rule.Selects(source, naming).Verdict != NotSelected {
			return true
		}
	}
	return false
}
