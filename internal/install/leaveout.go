package install

import (
	"encoding/base64"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serverFields of metadata come from a server: an object that was read from a cluster has them.
var serverFields = []string{"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}

// notOurs is the table of what is left out of the objects of a kind, because somebody on the cluster fills it in: what an
// apply does not hold, it does not own, and so does not put back.
var notOurs = map[schema.GroupKind]func(object map[string]any){
	// A controller fills in the rules of aggregated ClusterRoles.
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}: func(object map[string]any) {
		if object["aggregationRule"] != nil {
			delete(object, "rules")
		}
	},
	// Components make their certificates when they start.
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   emptyBundles("webhooks", "*", "clientConfig"),
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: emptyBundles("webhooks", "*", "clientConfig"),
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:               emptyBundles("spec", "conversion", "webhook", "clientConfig"),
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                           emptyBundles("spec"),
	// The server moves what is written in clear to data, where an apply that no longer has a key could not remove it.
	{Kind: "Secret"}: encode,
}

// leaveOut takes out of an object what is not ours to set.
func leaveOut(d *document) {
	metadata := d.object["metadata"].(map[string]any)
	for _, field := range serverFields {
		delete(metadata, field)
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
	}
	for _, key := range []string{"labels", "annotations"} {
		if fields, ok := metadata[key].(map[string]any); metadata[key] == nil || ok && len(fields) == 0 {
			delete(metadata, key)
		}
	}
	if !d.namespaced {
		delete(metadata, "namespace") // servers ignore it
	}
	delete(d.object, "status")
	dropNullTimes(d.object)
	if fill := notOurs[d.gvk().GroupKind()]; fill != nil {
		fill(d.object)
	}
}

// dropNullTimes removes the creationTimestamp: null that generators write into the metadata of templates.
func dropNullTimes(value any) {
	switch value := value.(type) {
	case map[string]any:
		if metadata, ok := value["metadata"].(map[string]any); ok {
			if time, there := metadata["creationTimestamp"]; there && time == nil {
				delete(metadata, "creationTimestamp")
			}
		}
		for _, v := range value {
			dropNullTimes(v)
		}
	case []any:
		for _, v := range value {
			dropNullTimes(v)
		}
	}
}

// emptyBundles removes a caBundle that says nothing, also one that is base64 of nothing but space.
func emptyBundles(path ...string) func(map[string]any) {
	return func(object map[string]any) {
		each(object, path, func(fields map[string]any) {
			switch bundle := fields["caBundle"].(type) {
			case nil:
				delete(fields, "caBundle")
			case string:
				if text, err := base64.StdEncoding.DecodeString(bundle); err == nil && strings.TrimSpace(string(text)) == "" {
					delete(fields, "caBundle")
				}
			}
		})
	}
}

// encode puts a Secret's stringData where the server would, over data.
func encode(object map[string]any) {
	clear, ok := object["stringData"].(map[string]any)
	if !ok {
		return
	}
	data, ok := object["data"].(map[string]any)
	if !ok {
		data = map[string]any{}
	}
	for key, value := range clear {
		text, ok := value.(string)
		if !ok {
			return // the server says what is wrong with it
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(object, "stringData")
	object["data"] = data
}

// each calls do for every object at a path, of which * is every item of a list.
func each(value any, path []string, do func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		if len(path) == 0 {
			do(value)
		} else if next, there := value[path[0]]; there {
			each(next, path[1:], do)
		}
	case []any:
		if len(path) > 0 && path[0] == "*" {
			for _, item := range value {
				each(item, path[1:], do)
			}
		}
	}
}
