package cluster

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// singlesMost is how many watches of one namespace each are taken for less than one of all.
	singlesMost = 8
	// deniedFor is how long a watch of all namespaces may be denied before they are watched one by one again: a server that
	// has just started denies what it will allow.
	deniedFor = 30 * time.Second
)

// ask finds out whether all namespaces may be watched at once, and has them watched in that way, or one by one. Where it
// can't be found out, it is tried again until it can.
func (n *Namespaces) ask() {
	told := ""
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		allowed, err := n.mayWatchAll()
		if err == nil {
			n.settle(allowed)
			return
		}
		if n.ctx.Err() != nil {
			return
		}
		if reason := Reason(err); reason != told {
			told = reason
			n.cluster.log.Warn("Whether all namespaces may be watched at once can't be found out and is asked again", "reason", reason, "error", err)
		}
		select {
		case <-n.ctx.Done():
		case <-time.After(delay):
		}
	}
}

func (n *Namespaces) mayWatchAll() (bool, error) {
	for _, verb := range []string{"list", "watch"} {
		if allowed, err := n.cluster.Can(n.ctx, verb, namespaces, "", ""); !allowed || err != nil {
			return false, err
		}
	}
	return true, nil
}

// settle takes in whether all may be watched at once. Those that are watched one by one are so until all are known.
func (n *Namespaces) settle(allowed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asking = false
	if !allowed {
		n.single()
		return
	}
	all := &namespaceStore{of: n}
	ctx, stop := context.WithCancel(n.ctx)
	n.all = all
	go n.cluster.watchMetadataTelling(ctx, namespaces, "", all, slog.LevelWarn, nil, func(err error) {
		if apierrors.IsForbidden(err) {
			n.mu.Lock()
			all.denied = true
			n.mu.Unlock()
			time.AfterFunc(deniedFor, func() { n.leave(all, stop) })
		}
	})
}

// leave gives a watch of all up that is still denied. What is known of the namespaces of concern stays known.
func (n *Namespaces) leave(all *namespaceStore, stop context.CancelFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil || n.all != all || !all.denied {
		return
	}
	stop()
	n.all, n.listed = nil, false
	for name := range n.states {
		if n.named[name] == nil {
			delete(n.states, name)
		}
	}
	n.single()
}

// single has all watched one by one that are not, until there are twice as many. The caller holds the lock.
func (n *Namespaces) single() {
	n.singles = 2 * len(n.named)
	n.open()
}
