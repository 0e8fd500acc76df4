//go:build unix

package controlplane_test

import (
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

func start(t *testing.T, name string, options controlplane.Options) *controlplane.Cluster {
	t.Helper()
	began := time.Now()
	cluster, err := controlplane.Start(t.Context(), name, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	t.Logf("cluster %s ready in %s", name, time.Since(began).Round(time.Millisecond))
	return cluster
}
