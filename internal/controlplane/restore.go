package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Snapshot copies the cluster's data and returns what Restore takes. The cluster is down meanwhile.
func (c *Cluster) Snapshot(ctx context.Context) (snapshot string, err error) {
	snapshot, err = os.MkdirTemp(c.dir, "snapshot-")
	if err != nil {
		return "", fmt.Errorf("taking a snapshot of cluster %s: %w", c.name, err)
	}
	return snapshot, c.whileDown(ctx, func() error { return os.CopyFS(filepath.Join(snapshot, "etcd"), os.DirFS(c.path("etcd"))) })
}

// Restore puts the cluster back to what it was when a snapshot was taken: all later changes are gone, and resource
// versions go on from there.
func (c *Cluster) Restore(ctx context.Context, snapshot string) error {
	return c.whileDown(ctx, func() error {
		if err := os.RemoveAll(c.path("etcd")); err != nil {
			return err
		}
		return os.CopyFS(c.path("etcd"), os.DirFS(filepath.Join(snapshot, "etcd")))
	})
}

// whileDown does something while neither the API server nor etcd runs.
func (c *Cluster) whileDown(ctx context.Context, do func() error) error {
	for _, component := range []Component{APIServer, Etcd} {
		if err := c.Kill(component); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return fmt.Errorf("the data of cluster %s: %w", c.name, err)
	}
	for _, component := range []Component{Etcd, APIServer} {
		if err := c.Restart(ctx, component); err != nil {
			return err
		}
	}
	return nil
}
