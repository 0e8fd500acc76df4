//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
)

// tenant has a virtual cluster on the provider's cluster, and an Isthmus of its own between the two.
type tenant struct {
	name string
	// cluster is the virtual one, seen in the namespace that people write in; host is the provider's, seen in the
	// namespace that belongs to the virtual cluster.
	cluster, host *side
	isthmus       *isthmus
	naming        boundary.VirtualCluster
}

// startTenants brings up the second scene: two virtual clusters, here two control planes, and what the platform has.
func (w *world) startTenants(ctx context.Context) error {
	w.say("\nTwo tenants of one platform: each has a virtual cluster, and an Isthmus between it and the provider's cluster.\n")
	crds := [][]byte{w.applications}
	for _, m := range []module{gatewayAPI, prometheusOperator} {
		manifests, err := m.crds(ctx, w.say)
		if err != nil {
			return err
		}
		crds = append(crds, manifests)
	}
	w.say("Starting the virtual clusters acme and globex, and an Isthmus for each, with the rights that \"isthmus rbac\" prints.")
	if err := w.provider.Apply(ctx, bytes.Join(append(crds, file("host.yaml")), []byte("\n---\n"))); err != nil {
		return err
	}
	w.tenants = []*tenant{{name: "acme"}, {name: "globex"}}
	var starting sync.WaitGroup
	errs := make([]error, len(w.tenants))
	for i, t := range w.tenants {
		starting.Go(func() { errs[i] = w.startTenant(ctx, t, crds) })
	}
	starting.Wait()
	return errors.Join(errs...)
}

func (w *world) startTenant(ctx context.Context, t *tenant, crds [][]byte) (err error) {
	configuration := bytes.ReplaceAll(file("tenant-sync.yaml"), []byte("vcluster-acme--"), []byte("vcluster-"+t.name+"--"))
	parsed, err := config.Parse("tenant-sync.yaml", configuration)
	if err != nil {
		return err
	}
	t.naming = parsed.VirtualCluster
	t.host = w.provider.in(t.naming.HostNamespace)
	if t.cluster, err = startSide(ctx, t.name, "web"); err != nil {
		return err
	}
	if err := t.cluster.Apply(ctx, bytes.Join(append(crds[:len(crds):len(crds)], file("tenant.yaml")), []byte("\n---\n"))); err != nil {
		return err
	}
	t.isthmus, err = startIsthmus(ctx, w.binary(), w.dir, t.user(), configuration, t.cluster, w.provider)
	return err
}

// user is whom the tenant's Isthmus runs as.
func (t *tenant) user() string { return user + "-" + t.name }

// twin is what an object of the tenant's is called in its host namespace, shared what it is called where tenants meet.
func (t *tenant) twin(name string) string   { return t.naming.HostName(t.cluster.namespace, name) }
func (t *tenant) shared(name string) string { return t.naming.SharedName(t.cluster.namespace, name) }

// each collects what a check says of every tenant.
func (w *world) each(check func(*tenant) error) error {
	var errs []error
	for _, t := range w.tenants {
		if err := check(t); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.name, err))
		}
	}
	return errors.Join(errs...)
}

// printTenants prints what crossed between the tenants and the platform, as the clusters have it now.
func (w *world) printTenants(ctx context.Context) {
	table := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "  KIND\tTENANT\tVIRTUAL CLUSTER\t\tPROVIDER\tWHAT CROSSED")
	for _, kind := range []schema.GroupVersionResource{classes, routes, applications, alerts, configMaps, secrets} {
		for _, t := range w.tenants {
			for _, twin := range w.copies(ctx, w.provider, kind, t.name) {
				_, name, _ := strings.Cut(twin.GetAnnotations()[boundary.AnnotationSource], "/")
				if source, err := t.cluster.get(ctx, kind, name); err == nil {
					_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\t→\t%s\t%s\n", twin.GetKind(), t.name, placeOf(source), placeOf(&twin), whatCrossed(source, &twin))
				}
			}
			for _, imported := range w.copies(ctx, t.cluster, kind, w.provider.Name()) {
				_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\t←\t%s\t%s\n", imported.GetKind(), t.name, placeOf(&imported), imported.GetAnnotations()[boundary.AnnotationSource], whatCame(&imported))
			}
		}
	}
	_ = table.Flush()
}

// copies returns the objects on a cluster that came from another.
func (w *world) copies(ctx context.Context, on *side, kind schema.GroupVersionResource, origin string) []unstructured.Unstructured {
	list, err := on.in("").objects(kind).List(ctx, metav1.ListOptions{LabelSelector: boundary.LabelOrigin + "=" + origin})
	if err != nil {
		w.say("  %s can't be listed: %v", kind.Resource, err)
		return nil
	}
	return list.Items
}

func placeOf(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

func whatCame(imported *unstructured.Unstructured) string {
	if imported.Object["status"] != nil {
		return "spec and status in, to read"
	}
	return "data in"
}

func whatCrossed(source, twin *unstructured.Unstructured) string {
	what := "data out"
	if source.Object["spec"] != nil {
		what = "spec out"
	}
	if source.Object["status"] != nil {
		what += ", status back"
	}
	if project := field(twin, "spec.project"); project != nil {
		what += fmt.Sprintf("; in the project %s", project)
	}
	if twin.Object["operation"] != nil && source.Object["operation"] == nil {
		what += "; the provider's operation is kept"
	}
	return what
}
