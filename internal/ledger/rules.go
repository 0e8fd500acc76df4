package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
)

// Rule is what is remembered of a rule.
type Rule struct {
	Name      string                 `json:"name"`
	Group     string                 `json:"group,omitempty"`
	Version   string                 `json:"version"`
	Kind      string                 `json:"kind"`
	Direction boundary.Direction     `json:"direction"`
	OnRemoval boundary.RemovalPolicy `json:"onRemoval"`
	// Namespaces are the remote namespaces that its twins belong in, or Anywhere.
	Namespaces []string `json:"namespaces,omitempty"`
	// Former are the remote namespaces, or Anywhere, in which twins of earlier runs may be left.
	Former []string `json:"former,omitempty"`
	// HeldIn are the namespaces, or Anywhere, in which sources may carry our finalizer, CarryFinalizers those of the rule
	// (D3).
	HeldIn          []string `json:"heldIn,omitempty"`
	CarryFinalizers []string `json:"carryFinalizers,omitempty"`
}

// Anywhere stands for all namespaces.
const Anywhere = "*"

// GroupVersionKind returns the kind of the rule.
func (r Rule) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// Begin records the rules that run from now on, and returns those of earlier runs that are not among them (D5). They
// stay in the ledger until Forget. Namespaces that twins no longer belong in are remembered until ForgetFormer.
func (l *Ledger) Begin(ctx context.Context, rules []Rule) (removed []Rule, err error) {
	first := map[string][]string{}
	err = l.update(ctx, func(c *content) bool {
		before, _ := json.Marshal(c.Rules)
		known := map[string][]string{}
		for _, r := range c.Rules {
			known[r.Name] = slices.Concat(known[r.Name], r.Namespaces, r.Former)
		}
		for _, r := range rules {
			first[r.Name] = nil
			if !slices.Contains(known[r.Name], Anywhere) {
				first[r.Name] = subtract(r.Namespaces, known[r.Name])
			}
		}
		removed = c.begin(rules)
		after, _ := json.Marshal(c.Rules)
		return string(before) != string(after)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = map[string][]string{}
	}
	for name, namespaces := range first {
		l.first[name] = union(l.first[name], namespaces)
	}
	return removed, err
}

// ForgetUntouched drops the former namespaces of a rule that this process was the first to write down, and in which a
// flow of it that has ended can't have written twins.
func (l *Ledger) ForgetUntouched(ctx context.Context, rule string, mayHaveWritten func(namespace string) bool) error {
	l.mu.Lock()
	untouched := slices.DeleteFunc(slices.Clone(l.first[rule]), mayHaveWritten)
	l.first[rule] = untouched
	l.mu.Unlock()
	return l.ForgetFormer(ctx, rule, slices.DeleteFunc(slices.Clone(untouched), func(namespace string) bool { return namespace == Anywhere }))
}

// Rehearse is Begin for those who only look: nothing is written.
func (l *Ledger) Rehearse(rules []Rule) (removed []Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.begin(rules)
}

// begin takes in the rules that run from now on, and returns those that are not among them any more.
func (c *content) begin(rules []Rule) (removed []Rule) {
	merged := slices.Clone(rules)
	for _, old := range c.Rules {
		at := slices.IndexFunc(rules, func(r Rule) bool {
			return r.Name == old.Name && r.Kind == old.Kind && r.Group == old.Group && r.Direction == old.Direction
		})
		former := union(old.Former, old.Namespaces)
		if at < 0 {
			old.Namespaces, old.Former = nil, former
			removed, merged = append(removed, old), append(merged, old)
			continue
		}
		if !slices.Contains(rules[at].Namespaces, Anywhere) {
			merged[at].Former = subtract(former, rules[at].Namespaces)
		}
		if !slices.Contains(rules[at].HeldIn, Anywhere) {
			merged[at].HeldIn = union(old.HeldIn, rules[at].HeldIn)
		}
	}
	slices.SortFunc(merged, func(a, b Rule) int { return cmp.Compare(a.Name, b.Name) })
	c.Rules = merged
	return removed
}

// Rules returns the rules that run, and those that are wound down.
func (l *Ledger) Rules() []Rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.content.Rules)
}

// Former returns the remote namespaces, or Anywhere, in which twins of a rule may be left although none belongs there.
func (l *Ledger) Former(rule string) []string { return l.namespaces(rule, former) }

// ForgetFormer drops former namespaces of a rule in which no twin is left.
func (l *Ledger) ForgetFormer(ctx context.Context, rule string, namespaces []string) error {
	return l.forget(ctx, rule, namespaces, former)
}

// HeldIn returns the namespaces, or Anywhere, in which sources may carry our finalizer for a rule (D3).
func (l *Ledger) HeldIn(rule string) []string { return l.namespaces(rule, heldIn) }

// ForgetHeld drops namespaces in which a rule holds no source any more.
func (l *Ledger) ForgetHeld(ctx context.Context, rule string, namespaces []string) error {
	return l.forget(ctx, rule, namespaces, heldIn)
}

func former(r *Rule) *[]string { return &r.Former }
func heldIn(r *Rule) *[]string { return &r.HeldIn }

// namespaces returns one of a rule's lists of namespaces.
func (l *Ledger) namespaces(rule string, list func(*Rule) *[]string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.content.Rules {
		if r.Name == rule {
			return slices.Clone(*list(&r))
		}
	}
	return nil
}

// forget drops namespaces from one of a rule's lists.
func (l *Ledger) forget(ctx context.Context, rule string, namespaces []string, list func(*Rule) *[]string) error {
	return l.update(ctx, func(c *content) (changed bool) {
		c.Rules = slices.Clone(c.Rules)
		for i := range c.Rules {
			if c.Rules[i].Name == rule {
				have := list(&c.Rules[i])
				left := subtract(*have, namespaces)
				changed = len(left) != len(*have)
				*have = left
			}
		}
		return changed
	})
}

// Forget drops a rule of a kind and direction that is wound down. One of the same name and another kind stays.
func (l *Ledger) Forget(ctx context.Context, direction boundary.Direction, kind schema.GroupKind, name string) error {
	return l.update(ctx, func(c *content) bool {
		before := len(c.Rules)
		c.Rules = slices.DeleteFunc(slices.Clone(c.Rules), func(r Rule) bool {
			return r.Name == name && r.Direction == direction && r.GroupVersionKind().GroupKind() == kind
		})
		if !slices.ContainsFunc(c.Rules, func(r Rule) bool { return r.Name == name }) {
			delete(c.Crossed, name)
		}
		return len(c.Rules) != before
	})
}

func union(a, b []string) []string {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

func subtract(a, b []string) []string {
	without := make(map[string]bool, len(b))
	for _, s := range b {
		without[s] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return without[s] })
}
