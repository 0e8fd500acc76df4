package installation

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"isthmus.dev/isthmus/internal/install"
)

// callees names the workloads of the manifests that an admission webhook or an APIService calls, and that are not available.
func (p *pass) callees(object *unstructured.Unstructured) (unavailable []string) {
	for _, service := range servicesOf(object) {
		for _, workload := range backing(p.bundle, service) {
			if result := p.stateOf(workload); result.Status != status.CurrentStatus {
				unavailable = append(unavailable, keyOf(workload).String())
			}
		}
	}
	return compact(unavailable)
}

// servicesOf returns the Services that an object has the API server call: those of its webhooks, or the one of an APIService.
func servicesOf(object *unstructured.Unstructured) (services []objectKey) {
	add := func(ref map[string]any) {
		namespace, _ := ref["namespace"].(string)
		if name, _ := ref["name"].(string); name != "" {
			services = append(services, objectKey{"", "Service", namespace, name})
		}
	}
	webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
	for _, w := range webhooks {
		if w, ok := w.(map[string]any); ok {
			ref, _, _ := unstructured.NestedMap(w, "clientConfig", "service")
			add(ref)
		}
	}
	ref, _, _ := unstructured.NestedMap(object.Object, "spec", "service")
	add(ref)
	return services
}

// backing returns the workloads of a bundle whose pods a Service of the bundle selects.
func backing(b *install.Bundle, service objectKey) (workloads []*unstructured.Unstructured) {
	var selector labels.Selector
	for _, phase := range b.Phases {
		for _, o := range phase.Objects {
			if keyOf(o.Unstructured) == service {
				selected, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
				if len(selected) > 0 {
					selector = labels.SelectorFromSet(selected)
				}
			}
		}
	}
	if selector == nil {
		return nil
	}
	for _, phase := range b.Phases {
		for _, o := range phase.Objects {
			if !ownsPods[o.GroupVersionKind().GroupKind()] || o.GetNamespace() != service.namespace || o.Once {
				continue
			}
			set, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
			if selector.Matches(labels.Set(set)) {
				workloads = append(workloads, o.Unstructured)
			}
		}
	}
	return workloads
}

// takeOwnWebhookOut deletes the webhook configuration of the component that an error tells is not answering, if what it calls
// is not available: it would keep its own workloads from coming back. It is applied again once they are there.
func (p *pass) takeOwnWebhookOut(ctx context.Context, err error) (taken bool) {
	for _, phase := range p.bundle.Phases {
		if phase.Name != install.PhaseWebhooks {
			continue
		}
		for _, o := range phase.Objects {
			live := p.live(o.Unstructured)
			if !p.stamp.on(live) || live.GetDeletionTimestamp() != nil || !calledIn(o.Unstructured, err.Error()) || len(p.callees(o.Unstructured)) == 0 {
				continue
			}
			if p.erase(ctx, p.resources[o.GroupVersionKind()], live) == nil {
				taken = true
			}
		}
	}
	return taken
}

// calledIn reports whether an API server's message says that it failed to call one of an object's webhooks.
func calledIn(object *unstructured.Unstructured, message string) bool {
	webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
	for _, w := range webhooks {
		if w, ok := w.(map[string]any); ok {
			if name, _ := w["name"].(string); name != "" && strings.Contains(message, `failed calling webhook "`+name+`"`) {
				return true
			}
		}
	}
	return false
}
