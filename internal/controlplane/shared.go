//go:build unix

package controlplane

import (
	"context"
	"os"
	"sync"
	"time"
)

// TB is what [Shared] needs of a test: *testing.T, *testing.B and *testing.F.
type TB interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
}

// shared are the clusters of this process that tests share.
var shared = struct {
	sync.Mutex
	clusters map[string]*sharedCluster
}{clusters: map[string]*sharedCluster{}}

type sharedCluster struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Shared returns the cluster of that name, started with default options by the
// first test of the process that asks for it. Tests that share a cluster use
// namespaces and names of their own, and neither kill nor stop it. The package's
// TestMain must call [Main].
func Shared(tb TB, name string) *Cluster {
	tb.Helper()
	shared.Lock()
	entry := shared.clusters[name]
	if entry == nil {
		entry = &sharedCluster{}
		shared.clusters[name] = entry
	}
	shared.Unlock()
	// Outside of the lock, so that two clusters start at the same time.
	entry.once.Do(func() { entry.cluster, entry.err = Start(tb.Context(), name, Options{}) })
	if entry.err != nil {
		tb.Fatalf("shared control plane: %v", entry.err)
	}
	return entry.cluster
}

// Eventually waits until check returns nil, or fails the test with its last
// error after a time.
func Eventually(tb TB, limit time.Duration, check func() error) {
	tb.Helper()
	for deadline := time.Now().Add(limit); ; <-time.After(25 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %v", limit, err)
		}
	}
}

// Main runs the tests of a package, stops the clusters that they shared, and
// exits with the tests' code: func TestMain(m *testing.M) { controlplane.Main(m) }.
func Main(m interface{ Run() int }) {
	code := m.Run()
	StopShared()
	os.Exit(code)
}

// StopShared stops the clusters that [Shared] started. It is for a TestMain
// that does more than [Main].
func StopShared() {
	shared.Lock()
	defer shared.Unlock()
	for name, entry := range shared.clusters {
		if entry.cluster != nil {
			entry.cluster.Stop()
		}
		delete(shared.clusters, name)
	}
}
