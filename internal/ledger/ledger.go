// Package ledger keeps what an Isthmus has to remember over restarts in a ConfigMap on the local cluster: who it is,
// which clusters it runs between, and the rules it has run (docs/contract.md, "Words").
package ledger

import (
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
	Client dynamic.Interface
	// Namespace and Name are those of the ConfigMap.
	Namespace, Name     string
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
		name:   o.Name,
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

// crdKey tells the sources' CRDs of both directions apart.
func crdKey(direction boundary.Direction, gr schema.GroupResource) string {
	return string(direction) + "/" + gr.String()
}
