// Package ledger keeps what an Isthmus has to remember over restarts in a ConfigMap on the local cluster: who it is,
// which clusters it runs between, and the rules it has run (docs/contract.md, "Words").
package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"isthmus.dev/isthmus/internal/boundary"
)

// AllowMassDeletion is an annotation on the ledger by which somebody lets held deletes go on (F8). Its value is the
// name of a rule of the flow, and then it is taken off when it is used, or "*", which stays.
const AllowMassDeletion = boundary.Prefix + "allow-mass-deletion"

// dataKey is the ConfigMap's only key.
const dataKey = "ledger"

// crossedWindow is how long RecordCrossed waits for others to share its write.
const crossedWindow = 20 * time.Millisecond

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

// content is what the ConfigMap holds, as JSON.
type content struct {
	ClusterID string `json:"clusterID"`
	LocalUID  string `json:"localUID"`
	RemoteID  string `json:"remoteID"`
	RemoteUID string `json:"remoteUID"`
	Rules     []Rule `json:"rules,omitempty"`
	// CRDs are the UIDs of the CRDs that the sources' kinds come from, by kind.
	CRDs map[string]string `json:"crds,omitempty"`
	// Crossed are the UIDs of sources that have had a twin, by rule, of rules that leave a deleted twin deleted (D4).
	Crossed map[string][]types.UID `json:"crossed,omitempty"`
}

// Options say whose ledger it is and where it is kept.
type Options struct {
	Client              dynamic.Interface
	Namespace, Instance string
	ClusterID, LocalUID string
	// RemoteUID is empty where the remote cluster can't be asked: then only a ledger that knows it is opened.
	RemoteID, RemoteUID string
}

// Ledger is the ledger of one Isthmus. Its methods may be called at the same time.
type Ledger struct {
	client dynamic.ResourceInterface
	name   string
	where  string

	mu      sync.Mutex
	content content
	version string // resourceVersion of the ConfigMap; empty: it does not exist yet
	unsaved bool   // the last write of the content failed
	// readOnly ledgers are never written.
	readOnly bool
	// first are the namespaces, by rule, that were not in the ledger before this process wrote them down.
	first map[string][]string

	batch *batch // RecordCrossed calls that share the next write; nil: none
}

type batch struct {
	add  map[string][]types.UID
	done chan struct{}
	err  error
}

// Open reads the ledger, or starts one. A ledger of another cluster ID or remote, or of clusters that were replaced,
// is an error that says what to do: deciding on absences with it could delete what must stay. Where the remote cluster
// can't be asked who it is, and no ledger tells, the error is ErrRemoteUnknown.
func Open(ctx context.Context, o Options) (*Ledger, error) {
	l := newLedger(o)
	switch found, err := l.read(ctx, o); {
	case err != nil:
		return nil, err
	case !found && o.RemoteUID == "":
		return nil, ErrRemoteUnknown
	case !found:
		l.content = content{ClusterID: o.ClusterID, LocalUID: o.LocalUID, RemoteID: o.RemoteID, RemoteUID: o.RemoteUID}
		return l, l.save(ctx)
	}
	return l, nil
}

// ErrRemoteUnknown says that the remote cluster's identity is in no ledger.
var ErrRemoteUnknown = errors.New("no ledger knows the remote cluster yet")

// Read is Open for those who only look: whether a run with these options would be refused, and what it would find. The
// ledger can't be written; one that does not exist yet reads as a new one.
func Read(ctx context.Context, o Options) (*Ledger, error) {
	l := newLedger(o)
	l.readOnly = true
	_, err := l.read(ctx, o)
	return l, err
}

func newLedger(o Options) *Ledger {
	l := &Ledger{
		client: o.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(o.Namespace),
		name:   boundary.OwnName(o.Instance),
	}
	l.where = fmt.Sprintf("ConfigMap %s/%s on the local cluster", o.Namespace, l.name)
	return l
}

// read takes in the stored ledger, if it is there and of this Isthmus.
func (l *Ledger) read(ctx context.Context, o Options) (found bool, err error) {
	stored, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the ledger, %s: %w", l.where, err)
	}
	if err := l.load(stored); err != nil {
		return false, err
	}
	for _, c := range []struct{ what, have, want, advice string }{
		{"cluster ID", l.content.ClusterID, o.ClusterID, "start with --cluster-id " + l.content.ClusterID},
		{"remote ID", l.content.RemoteID, o.RemoteID, "start with --remote-id " + l.content.RemoteID + ", or give this Isthmus an --instance of its own"},
		{"local cluster (UID of kube-system)", l.content.LocalUID, o.LocalUID, "check --local-kubeconfig"},
		{"remote cluster (UID of kube-system)", l.content.RemoteUID, o.RemoteUID, "check --remote-kubeconfig"},
	} {
		if c.have != c.want && c.want != "" {
			return false, &MismatchError{fmt.Sprintf("the ledger, %s, was written for %s %s, and this is %s: %s; or, if the change is meant, delete the ledger: objects that were created under it are then foreign and stay as they are, unless isthmus adopt takes them over",
				l.where, c.what, c.have, c.want, c.advice)}
		}
	}
	return true, nil
}

// MismatchError says that the ledger was written for another cluster, remote or ID. Trying again does not help.
type MismatchError struct{ message string }

// Error says what differs and what to do.
func (e *MismatchError) Error() string { return e.message }

// load takes in the stored ConfigMap. The caller holds the lock, or has the ledger for itself.
func (l *Ledger) load(stored *unstructured.Unstructured) error {
	text, _, _ := unstructured.NestedString(stored.Object, "data", dataKey)
	var c content
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("the ledger, %s, can't be read (key %q: %w): restore it, or delete it to start anew", l.where, dataKey, err)
	}
	l.content, l.version, l.unsaved = c, stored.GetResourceVersion(), false
	return nil
}

// save writes the content, unless the ConfigMap changed since it was read. The caller holds the lock, or has the
// ledger for itself.
func (l *Ledger) save(ctx context.Context) error {
	if l.readOnly {
		return fmt.Errorf("write the ledger, %s: it was opened to be read only", l.where)
	}
	text, err := json.MarshalIndent(l.content, "", "  ")
	if err != nil {
		return err
	}
	version := l.version
	if version == "" {
		version = "1" // create-only
	}
	body := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": l.name, "resourceVersion": version,
			"labels": map[string]any{"app.kubernetes.io/name": "isthmus"},
		},
		"data": map[string]any{dataKey: string(text)},
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	force := true
	saved, err := l.client.Patch(ctx, l.name, types.ApplyPatchType, encoded, metav1.PatchOptions{FieldManager: boundary.FieldManager, Force: &force})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("write the ledger, %s: %w; create its namespace, as the output of \"isthmus rbac\" does", l.where, err)
	case err != nil:
		return fmt.Errorf("write the ledger, %s: %w", l.where, err)
	}
	l.version = saved.GetResourceVersion()
	return nil
}

// update changes the content and writes it, trying again from what is stored when somebody changed it in between.
func (l *Ledger) update(ctx context.Context, change func(*content) (changed bool)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if !change(&l.content) && !l.unsaved {
			return nil
		}
		err := l.save(ctx)
		if l.unsaved = err != nil; !apierrors.IsConflict(err) {
			return err
		}
		stored, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the ledger, %s: %w", l.where, err)
		}
		if err := l.load(stored); err != nil {
			return err
		}
	}
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

// RemoteUID returns the UID of the remote cluster's namespace kube-system; LocalUID of the local one's.
func (l *Ledger) RemoteUID() string { return l.content.RemoteUID }

// LocalUID returns the UID of the local cluster's namespace kube-system.
func (l *Ledger) LocalUID() string { return l.content.LocalUID }

// CRD returns the recorded UID of the CRD of a kind of sources; empty: none is recorded.
func (l *Ledger) CRD(direction boundary.Direction, gr schema.GroupResource) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.CRDs[crdKey(direction, gr)]
}

// RecordCRD records the UID of the CRD of a kind of sources.
func (l *Ledger) RecordCRD(ctx context.Context, direction boundary.Direction, gr schema.GroupResource, uid string) error {
	key := crdKey(direction, gr)
	return l.update(ctx, func(c *content) bool {
		if c.CRDs[key] == uid {
			return false
		}
		c.CRDs = maps.Clone(c.CRDs)
		if c.CRDs == nil {
			c.CRDs = map[string]string{}
		}
		c.CRDs[key] = uid
		return true
	})
}

// TakeMassDeletionAllowance reports, from a live read, whether somebody allowed the held deletes of the flow that runs
// these rules, and takes the allowance away: it holds for what is held now.
func (l *Ledger) TakeMassDeletionAllowance(ctx context.Context, rules []string) (bool, error) {
	value, err := l.allowance(ctx, rules)
	if err != nil || value == "" {
		return false, err
	}
	if value == "*" || l.readOnly {
		return true, nil // other flows may want it too
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{AllowMassDeletion: nil}}})
	if err != nil {
		return false, err
	}
	if _, err := l.client.Patch(ctx, l.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: boundary.FieldManager}); err != nil {
		return false, fmt.Errorf("take the allowance off the ledger, %s: %w", l.where, err)
	}
	return true, nil
}

// allowance returns the value of the annotation that lets the held deletes of a flow go on; empty: it does not.
func (l *Ledger) allowance(ctx context.Context, rules []string) (string, error) {
	stored, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && l.readOnly:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read the ledger, %s: %w", l.where, err)
	}
	value := stored.GetAnnotations()[AllowMassDeletion]
	if value != "*" && !slices.Contains(rules, value) {
		return "", nil
	}
	return value, nil
}

// Crossed reports whether a source has had a twin under a rule that leaves deleted twins deleted.
func (l *Ledger) Crossed(rule string, uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.content.Crossed[rule], uid)
}

// RecordCrossed remembers that a source gets a twin. It returns when that is written; calls that come together share
// one write.
func (l *Ledger) RecordCrossed(ctx context.Context, rule string, uid types.UID) error {
	l.mu.Lock()
	b := l.batch
	if b == nil {
		b = &batch{add: map[string][]types.UID{}, done: make(chan struct{})}
		l.batch = b
		time.AfterFunc(crossedWindow, func() { l.writeBatch(context.WithoutCancel(ctx), b) })
	}
	b.add[rule] = append(b.add[rule], uid)
	l.mu.Unlock()
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Ledger) writeBatch(ctx context.Context, b *batch) {
	defer close(b.done)
	l.mu.Lock()
	l.batch = nil
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	b.err = l.update(ctx, func(c *content) bool {
		changed := false
		for rule, uids := range b.add {
			for _, uid := range uids {
				if !slices.Contains(c.Crossed[rule], uid) {
					if c.Crossed == nil {
						c.Crossed = map[string][]types.UID{}
					}
					c.Crossed[rule] = append(c.Crossed[rule], uid)
					changed = true
				}
			}
		}
		return changed
	})
}

// ForgetCrossed drops sources that are gone.
func (l *Ledger) ForgetCrossed(ctx context.Context, rule string, gone func(types.UID) bool) error {
	return l.update(ctx, func(c *content) bool {
		kept := slices.DeleteFunc(slices.Clone(c.Crossed[rule]), gone)
		changed := len(kept) != len(c.Crossed[rule])
		if changed {
			c.Crossed[rule] = kept
		}
		return changed
	})
}

func union(a, b []string) []string {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

func subtract(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// crdKey tells the sources' CRDs of both directions apart.
func crdKey(direction boundary.Direction, gr schema.GroupResource) string {
	return string(direction) + "/" + gr.String()
}
