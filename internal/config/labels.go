package config

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// reservedPrefixes are those of stamps: ours and other systems'. Their keys never cross, and no rule sets them (P2).
var reservedPrefixes = []string{"isthmus.dev/", "vcluster.loft.sh/", "kupe.cloud/", "offloading.liqo.io/"}

// neverCross are single keys that no rule can keep (P6).
var neverCross = []string{"kubectl.kubernetes.io/last-applied-configuration"}

// reservedPrefix returns the reserved prefix that a key is under.
func reservedPrefix(key string) (string, bool) {
	i := slices.IndexFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	if i < 0 {
		return "", false
	}
	return reservedPrefixes[i], true
}

// checkLabelSyntax checks keys and values of labels.
func (c *compiler) checkLabelSyntax(p *field.Path, set map[string]string) {
	for key, value := range set {
		at := p.Key(plainKey(key))
		if fault := first(validation.IsQualifiedName(key)); fault != "" {
			c.keyErrorf(at, "is no label key: %s", fault)
		}
		if fault := first(validation.IsValidLabelValue(value)); fault != "" {
			c.errorf(at, "%s is no label value: %s", show(value), fault)
		}
	}
}

// checkLabels checks labels that are to be set on twins.
func (c *compiler) checkLabels(p *field.Path, set map[string]string) {
	c.checkLabelSyntax(p, set)
	for key := range set {
		if prefix, reserved := reservedPrefix(key); reserved {
			c.keyErrorf(p.Key(plainKey(key)), "keys under %s are reserved: use another prefix", prefix)
		}
	}
}

// operators says what apimachinery calls the operators of matchExpressions.
var operators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn:           selection.In,
	metav1.LabelSelectorOpNotIn:        selection.NotIn,
	metav1.LabelSelectorOpExists:       selection.Exists,
	metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

// checkRequirement checks one of matchExpressions, by itself and against matchLabels.
func (c *compiler) checkRequirement(r SelectorRequirement, matchLabels map[string]string, p *field.Path) {
	if r.Key == "" || r.Operator == "" || !c.sound(p) {
		return // reported already
	}
	if fault := first(validation.IsQualifiedName(r.Key)); fault != "" {
		c.errorf(p.Child("key"), "%s is no label key: %s", show(r.Key), fault)
		return
	}
	for i, value := range r.Values {
		if fault := first(validation.IsValidLabelValue(value)); fault != "" {
			c.errorf(p.Child("values").Index(i), "%s is no label value: %s", show(value), fault)
			return
		}
	}
	needsValues := r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn
	switch {
	case needsValues && len(r.Values) == 0:
		c.errorf(p, "operator %s needs values: add at least one", r.Operator)
		return
	case !needsValues && len(r.Values) > 0:
		c.errorf(p.Child("values"), "operator %s takes no values: remove them", r.Operator)
		return
	}
	requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
	if err != nil {
		c.errorf(p, "is no requirement on a label: %v", err)
		return
	}
	if value, ok := matchLabels[r.Key]; ok && !requirement.Matches(labels.Set{r.Key: value}) {
		c.errorf(p, "contradicts matchLabels, which wants %s: %s, so no object could match: remove one of them", r.Key, show(value))
	}
}

// checkKeys checks dropKeys and keepKeys.
func (c *compiler) checkKeys(e *SyncResource, p *field.Path) {
	drop, keep := p.Child("dropKeys"), p.Child("keepKeys")
	for i, key := range e.DropKeys {
		c.checkKeyPattern(key, drop.Index(i))
	}
	for i, key := range e.KeepKeys {
		at := keep.Index(i)
		c.checkKeyPattern(key, at)
		if prefix, reserved := reservedPrefix(key); reserved {
			c.errorf(at, "keys under %s never cross: remove it", prefix)
		} else if slices.Contains(neverCross, key) {
			c.errorf(at, "%s never crosses: remove it", key)
		}
		if j := slices.Index(e.DropKeys, key); j >= 0 && key != "" {
			c.errorf(at, "contradicts %s, which names the same key: keep one of them", drop.Index(j))
		}
	}
}

// checkKeyPattern checks a key or a prefix that ends in "/*".
func (c *compiler) checkKeyPattern(key string, p *field.Path) {
	if !c.sound(p) {
		return
	}
	if prefix, ok := strings.CutSuffix(key, "/*"); ok {
		if fault := first(validation.IsDNS1123Subdomain(prefix)); fault != "" {
			c.errorf(p, "%s is no prefix of keys: expected a domain before /*, like example.io/*", show(key))
		}
		return
	}
	if fault := first(validation.IsQualifiedName(strings.ToLower(key))); fault != "" {
		c.errorf(p, "%s is no label or annotation key: expected a key, like example.io/team, or a prefix, like example.io/*", show(key))
	}
}

// first returns the first of what apimachinery says about a value, without its examples; empty when it has no objection.
func first(faults []string) string {
	if len(faults) == 0 {
		return ""
	}
	fault, _, _ := strings.Cut(faults[0], " (e.g. ")
	return fault
}
