//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controlplane"
)

// home is the namespace in which isthmus controller keeps what it keeps.
const home = "isthmus-system"

// fleet is what isthmus controller runs on: two clusters of its own, which hold nothing else.
type fleet struct {
	*scene
	b    *bench
	name string
	// crossings is a file with the one Crossing, of Widgets that are opted in.
	crossings string
	// core and own are clients of the local cluster's admin, for namespaces and for the kinds of controller mode.
	core, own rest.Interface
	// sources and twins are the driver's clients, in all namespaces.
	sources, twins *widgets
}

// newFleet starts the clusters, and applies to the local one what controller mode needs there.
func (b *bench) newFleet(ctx context.Context, name string) (*fleet, error) {
	f := &fleet{scene: &scene{dir: b.dir, binary: b.binary}, b: b, name: name, crossings: filepath.Join(b.dir, name+".crossings.yaml")}
	crossing := fmt.Sprintf(`apiVersion: isthmus.dev/v1alpha1
kind: Crossing
metadata: {name: %[1]s}
spec: {resource: {group: %[2]s, version: %[3]s, resource: %[1]s}, workers: %[4]d}
`, plural, group, version, b.workers)
	err := f.start(ctx, func() error { return os.WriteFile(f.crossings, []byte(crossing), 0o600) })
	if err == nil {
		err = f.equip(ctx, crossing)
	}
	if err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// equip makes the clients, and applies the kinds of controller mode, the rights on the local cluster, and the Crossing.
func (f *fleet) equip(ctx context.Context, crossing string) (err error) {
	if f.core, err = bareClient(f.localConfig, schema.GroupVersion{Version: "v1"}); err != nil {
		return err
	}
	if f.own, err = bareClient(f.localConfig, v1alpha1.GroupVersion); err != nil {
		return err
	}
	if f.sources, err = newWidgets(f.localConfig, ""); err != nil {
		return err
	}
	if f.twins, err = newWidgets(f.remoteConfig, ""); err != nil {
		return err
	}
	if err := f.scene.local.ApplyOutput(ctx, exec.CommandContext(ctx, f.binary, "crds")); err != nil {
		return err
	}
	if err := f.namespace(ctx, home); err != nil {
		return err
	}
	if err := f.grantOn(ctx, f.scene.local, "--crossings", f.crossings, "--side", "local", "--subject-user", string(isthmus)); err != nil {
		return err
	}
	return f.scene.local.Apply(ctx, []byte(crossing))
}

// namespace makes a namespace on the local cluster.
func (f *fleet) namespace(ctx context.Context, name string) error {
	body := encode(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
	return f.core.Post().Resource("namespaces").Body(body).Do(ctx).Error()
}

// offload offloads a namespace to one remote, and returns when that is committed.
func (f *fleet) offload(ctx context.Context, namespace, counterpart, remote string) error {
	body := encode(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "NamespaceOffloading", "metadata": map[string]any{"name": "offloading"},
		"spec": map[string]any{
			"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": counterpart,
			"clusterSelector": map[string]any{"matchLabels": map[string]any{"name": remote}},
		},
	})
	return f.own.Post().Namespace(namespace).Resource("namespaceoffloadings").Body(body).Do(ctx).Error()
}

// reach tells isthmus by which kubeconfig a remote is reached.
func (f *fleet) reach(ctx context.Context, remote string, kubeconfig []byte) error {
	return f.scene.local.Apply(ctx, fmt.Appendf(nil, `apiVersion: v1
kind: Secret
metadata: {name: %[1]s, namespace: %[2]s}
stringData: {kubeconfig: %[3]s}
---
apiVersion: isthmus.dev/v1alpha1
kind: RemoteCluster
metadata: {name: %[1]s, labels: {name: %[1]s}}
spec: {access: {kubeconfigSecretRef: {name: %[1]s}}}
`, remote, home, encode(string(kubeconfig))))
}

// run starts isthmus controller.
func (f *fleet) run(ctx context.Context) (*process, error) {
	kubeconfig, err := f.scene.local.UserKubeconfig(string(isthmus))
	if err != nil {
		return nil, err
	}
	pprof, err := controlplane.FreeAddress()
	if err != nil {
		return nil, err
	}
	listen, err := controlplane.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := f.b.launch(ctx, f.name, pprof, f.binary, "controller", "--cluster-id", "local", "--namespace", home,
		"--kubeconfig", kubeconfig, "--listen", listen, "--pprof-bind-address", pprof)
	if err != nil {
		return nil, err
	}
	p.listen = listen
	return p, nil
}
