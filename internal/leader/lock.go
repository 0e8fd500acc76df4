package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
)

// lock is client-go's Lease lock for one term, with three differences: each renewal opens the gate from its start on,
// that another one holds the lease ends the term at once, and the Lease is made by a create-only apply, for which a right
// on this one name is enough.
type lock struct {
	*resourcelock.LeaseLock
	election *Election
	lost     context.CancelFunc // ends the term
	acquired bool               // it was ours in this term
	mine     bool               // it was ours when it was looked at or written last
}

func (e *Election) newLock(lost context.CancelFunc) *lock {
	return &lock{election: e, lost: lost, LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name},
		Client:     e.Cluster.Clientset().CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
	}}
}

// request returns the context of a request for the Lease, which no gate holds up.
func (l *lock) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(cluster.Ungated(ctx), l.election.Times.RenewDeadline/2)
}

// Get reads the Lease.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := l.request(ctx)
	defer cancel()
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil && record.HolderIdentity != l.election.Identity {
		l.mine = false
		if l.acquired {
			l.election.Gate.shut()
			l.lost()
		}
	}
	if err == nil {
		l.election.saw(record.HolderIdentity)
	} else {
		l.election.failed(ctx, err)
	}
	return record, raw, err
}

// Create makes the Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.request(ctx)
	defer cancel()
	start := time.Now()
	err := l.create(ctx, record)
	if err == nil {
		var stored *resourcelock.LeaderElectionRecord
		if stored, _, err = l.LeaseLock.Get(ctx); err == nil && stored.HolderIdentity != l.election.Identity {
			err = fmt.Errorf("%s holds it already", stored.HolderIdentity)
		}
	}
	return l.written(ctx, start, err)
}

func (l *lock) create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	spec := resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	encoded, err := json.Marshal(map[string]any{
		"apiVersion": coordinationv1.SchemeGroupVersion.String(), "kind": "Lease",
		"metadata": map[string]any{
			"name": l.election.Name, "resourceVersion": "1", // create-only
			"labels": map[string]any{"app.kubernetes.io/name": "isthmus"},
		},
		"spec": spec,
	})
	if err != nil {
		return err
	}
	force := true
	_, err = l.Client.Leases(l.election.Namespace).Patch(ctx, l.election.Name, types.ApplyPatchType, encoded,
		metav1.PatchOptions{FieldManager: boundary.FieldManager, Force: &force})
	return err
}

// Update takes or renews the Lease, in the state in which it was read or written last.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.request(ctx)
	defer cancel()
	start := time.Now()
	return l.written(ctx, start, l.LeaseLock.Update(ctx, record))
}

// written takes in the answer to a write that makes the lease ours.
func (l *lock) written(ctx context.Context, start time.Time, err error) error {
	if err != nil {
		l.election.failed(ctx, err)
		return err
	}
	l.acquired, l.mine = true, true
	l.election.Gate.open(start)
	l.election.saw(l.election.Identity)
	return nil
}

// release lets the next one lead at once, unless somebody else does already. Nothing may write any more.
func (l *lock) release() {
	l.election.Gate.shut()
	if !l.mine {
		return
	}
	ctx, cancel := l.request(context.Background())
	defer cancel()
	now := metav1.Now()
	// As client-go does it: a lease of a second, that nobody holds.
	if err := l.LeaseLock.Update(ctx, resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now}); err != nil {
		l.election.Logger.Info("The lease is not released, and runs out by itself", "lease", l.Describe(), "error", err)
	}
}

// RecordEvent is not wanted: it would take a right on Events in the Lease's namespace.
func (l *lock) RecordEvent(string) {}
