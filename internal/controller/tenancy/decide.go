package tenancy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// step is what has to be done about a namespace before its consumer gets its rights there.
type step int

const (
	// nothing: it is the consumer's already, or does not become it.
	nothing step = iota
	// create it, unless somebody else has by then.
	create
	// take it: its owner gives it.
	take
	// release it: its owner does not give it any more. The rights there go first.
	release
)

// verdict is the answer to a NamespaceRequest.
type verdict struct {
	// allowed: the namespace is the consumer's, once step is done.
	allowed bool
	step    step
	// reason and message say it to the consumer: nothing in them tells of what others have.
	reason, message string
	// granted and refused part what was asked for.
	granted, refused []v1alpha1.RequestedResource
}

// question is all that a verdict depends on.
type question struct {
	// consumer is nil when there is none, or it is on its way out.
	consumer *v1alpha1.Consumer
	request  *v1alpha1.NamespaceRequest
	// name is the consumer's name, which is in the name of the request's own namespace.
	name string
	// home is the namespace of the controller, which nobody gets.
	home string
	// namespace is the one that is asked for.
	namespace namespaceState
	// full: the consumer has as many namespaces as it may.
	full bool
}

// namespaceState is what matters of a namespace that is asked for.
type namespaceState struct {
	exists, terminating bool
	// origin and writer are in its stamp (N4), consent and giveTo the annotations of those names.
	origin, writer, consent, giveTo string
}

// identity is who a request's namespace belongs to, as the consumer's own Isthmus stamps it.
func identity(name string, request *v1alpha1.NamespaceRequest) boundary.Identity {
	source := request.Spec.Source
	return boundary.Identity{Cluster: name, Home: name, Instance: source.Instance, ClusterUID: source.ClusterUID}
}

// belongs reports whether a namespace is the one that a request got.
func (q *question) belongs() bool {
	ns := q.namespace
	return ns.exists && ns.origin == q.name && ns.writer == identity(q.name, q.request).Writer()
}

// decide answers a request. It is pure.
func decide(q question) verdict {
	name := q.request.Name
	refuse := func(reason, format string, args ...any) verdict {
		return verdict{reason: reason, message: fmt.Sprintf(format, args...), refused: q.request.Spec.Resources}
	}
	if q.consumer == nil {
		return refuse(v1alpha1.ReasonNoConsumer, "the provider does not let consumer %s in (any more)", q.name)
	}
	if !mayAskFor(q.consumer.Spec.Namespaces.Patterns, name, q.home) {
		return refuse(v1alpha1.ReasonNotAllowed, "the provider does not let consumer %s have a namespace of the name %s", q.name, name)
	}
	granted, refused := part(q.consumer.Spec.Resources, q.request.Spec.Resources)
	if len(granted) == 0 && len(refused) > 0 {
		return refuse(v1alpha1.ReasonNoResources, "of the kinds that are asked for, the provider lets consumer %s have none", q.name)
	}
	v := verdict{
		allowed: true, granted: granted, refused: refused, reason: v1alpha1.ReasonGranted, message: grantedMessage(refused),
	}
	ns := q.namespace
	given := ns.exists && ns.origin == "" && ns.writer == "" && ns.giveTo == q.name
	switch {
	case q.belongs() && ns.consent == v1alpha1.ConsentGiven && ns.giveTo != q.name:
		back := refuse(v1alpha1.ReasonTaken, "the owner of namespace %s does not give it any more", name)
		back.step = release
		return back
	case q.belongs() && ns.terminating, given && ns.terminating:
		return refuse(v1alpha1.ReasonNamespaceGoing, "namespace %s is being deleted; it is made again when it is gone", name)
	case q.belongs():
		return v
	case ns.exists && !given && ns.origin == q.name:
		return refuse(v1alpha1.ReasonTaken, "namespace %s belongs to another cluster, or another instance, of the ID %s", name, q.name)
	case ns.exists && !given && (ns.origin != "" || ns.writer != "" || ns.giveTo != ""):
		return refuse(v1alpha1.ReasonTaken, "namespace %s belongs to another consumer", name)
	case ns.exists && !given:
		return refuse(v1alpha1.ReasonTaken, "namespace %s exists and is the provider's own; its owner gives it with the annotation %s: %s",
			name, v1alpha1.GiveToAnnotation, q.name)
	case q.full:
		return refuse(v1alpha1.ReasonTooMany, "consumer %s has as many namespaces as the provider lets it have: %d", q.name, q.consumer.Spec.Namespaces.Max)
	}
	v.step = create
	if given {
		v.step = take
	}
	return v
}

func grantedMessage(refused []v1alpha1.RequestedResource) string {
	message := "the namespace is there, and so are the rights in it"
	if len(refused) > 0 {
		message += "; not allowed: " + describe(refused)
	}
	return message
}

// mayAskFor reports whether the patterns admit a name. Those of the cluster itself, of Isthmus and of the controller are never
// admitted.
func mayAskFor(patterns []string, name, home string) bool {
	if strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "isthmus-") || name == metav1.NamespaceDefault || name == home {
		return false
	}
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matches, err := path.Match(pattern, name)
		return matches && err == nil
	})
}

// part parts what is asked for by what is allowed, in a fixed order. Write holds Read; where Write is asked for and only Read
// is allowed, it is refused: a twin that can't be written is none.
func part(allowed []v1alpha1.AllowedResources, asked []v1alpha1.RequestedResource) (granted, refused []v1alpha1.RequestedResource) {
	for _, r := range asked {
		if r.Access == "" {
			r.Access = v1alpha1.AccessWrite
		}
		if slices.ContainsFunc(allowed, func(a v1alpha1.AllowedResources) bool { return holds(a, r) }) {
			granted = append(granted, r)
		} else {
			refused = append(refused, r)
		}
	}
	slices.SortFunc(granted, v1alpha1.RequestedResource.Compare)
	slices.SortFunc(refused, v1alpha1.RequestedResource.Compare)
	return slices.Compact(granted), slices.Compact(refused)
}

// holds reports whether an entry allows a kind. Names that are no plain plural, and the core group's namespaces, are allowed by none: in RBAC a
// Role that speaks of namespaces speaks of its own namespace, whose marks say whose it is.
func holds(a v1alpha1.AllowedResources, r v1alpha1.RequestedResource) bool {
	switch {
	case a.Group != r.Group, r.Resource == "" || strings.ContainsAny(r.Resource, "*/"), r.Group == "" && r.Resource == "namespaces":
		return false
	case a.Access == v1alpha1.AccessRead && r.Access != v1alpha1.AccessRead:
		return false
	}
	return slices.Contains(a.Resources, r.Resource) || slices.Contains(a.Resources, v1alpha1.AllResources)
}

// describe names kinds as kubectl does, with their access where that is Read.
func describe(resources []v1alpha1.RequestedResource) string {
	names := make([]string, 0, len(resources))
	for _, r := range resources {
		name := r.Resource
		if r.Group != "" {
			name += "." + r.Group
		}
		if r.Access == v1alpha1.AccessRead {
			name += " (to read)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
