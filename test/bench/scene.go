//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// scene is what all figures share: two clusters, the isthmus binary, and a folder for files.
type scene struct {
	local, remote *controlplane.Cluster
	dir           string
	binary        string
	worlds        int
	// config of the admin, whom the driver acts as.
	localConfig, remoteConfig *rest.Config
}

// newScene starts the clusters, whose kind is Widget, and builds isthmus.
func newScene(ctx context.Context) (*scene, error) {
	s := &scene{}
	var err error
	if s.dir, err = os.MkdirTemp("", "isthmus-bench-"); err != nil {
		return nil, err
	}
	s.binary = filepath.Join(s.dir, "isthmus")
	err = s.start(ctx, func() error {
		out, err := exec.CommandContext(ctx, "go", "build", "-o", s.binary, "isthmus.dev/isthmus/cmd/isthmus").CombinedOutput()
		if err != nil {
			return fmt.Errorf("build isthmus: %w\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// start starts the two clusters, and does something else meanwhile.
func (s *scene) start(ctx context.Context, meanwhile func() error) error {
	var starting sync.WaitGroup
	var errs [3]error
	starting.Go(func() { s.local, errs[0] = startCluster(ctx, "local") })
	starting.Go(func() { s.remote, errs[1] = startCluster(ctx, "remote") })
	starting.Go(func() { errs[2] = meanwhile() })
	starting.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	s.localConfig, s.remoteConfig = s.local.Config(), s.remote.Config()
	return nil
}

// startCluster starts a cluster on which the references may do everything; Isthmus may do what isthmus rbac says.
func startCluster(ctx context.Context, name string) (*controlplane.Cluster, error) {
	c, err := controlplane.Start(ctx, name, controlplane.Options{NoAuditBodies: true})
	if err != nil {
		return nil, err
	}
	err = c.Apply(ctx, []byte(harness.WidgetCRD(group)+fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: references}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}
`, floor, plain)))
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (s *scene) close() {
	s.stop()
	_ = os.RemoveAll(s.dir)
}

// stop stops the clusters.
func (s *scene) stop() {
	for _, c := range []*controlplane.Cluster{s.local, s.remote} {
		if c != nil {
			c.Stop()
		}
	}
}

// grant gives Isthmus the rights that a configuration needs, on both sides.
func (s *scene) grant(ctx context.Context, config, instance string) error {
	for side, c := range map[string]*controlplane.Cluster{"local": s.local, "remote": s.remote} {
		if err := s.grantOn(ctx, c, "--config", config, "--side", side, "--subject-user", string(isthmus), "--instance", instance, "--kubeconfig", c.Kubeconfig()); err != nil {
			return err
		}
	}
	return nil
}

// grantOn applies to a cluster what isthmus rbac prints.
func (s *scene) grantOn(ctx context.Context, c *controlplane.Cluster, flags ...string) error {
	if err := c.ApplyOutput(ctx, exec.CommandContext(ctx, s.binary, append([]string{"rbac"}, flags...)...)); err != nil {
		return fmt.Errorf("isthmus rbac: %w", err)
	}
	return nil
}
