package endpoints

import (
	"errors"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	mapping "isthmus.dev/isthmus/internal/endpoints"
)

// found are the links that something else than ClusterLinks says.
type found struct {
	known bool
	links []mapping.Found
	told  map[string]string // what was logged last, by the name of a link; under "" about all of them
}

// look takes in what the source says, and reports whether it was ever known; what was known once stays until it is known anew.
func (l *Links) look() bool {
	if l.source == nil {
		return true
	}
	links, faults, why := l.source.Links()
	if why != "" {
		l.found.log(l.logger, "", why)
		return l.found.known
	}
	l.found.known, l.found.links = true, links
	message := ""
	if err := errors.Join(faults...); err != nil {
		message = err.Error()
	}
	l.found.log(l.logger, "", message)
	return true
}

// beside returns the ClusterLinks, and those that were found and that none of these is about.
func (f *found) beside(objects []v1alpha1.ClusterLink) []v1alpha1.ClusterLink {
	named := map[string]bool{}
	for _, o := range objects {
		named[o.Name] = true
	}
	for _, link := range f.links {
		if !named[link.Link.Name] {
			objects = append(objects, link.Link)
		}
	}
	return objects
}

// parse parses a link of beside.
func (f *found) parse(object *v1alpha1.ClusterLink) (*mapping.Link, error) {
	if object.UID == "" {
		for _, link := range f.links {
			if link.Link.Name == object.Name {
				return link.Parse()
			}
		}
	}
	return mapping.FromClusterLink(object)
}

// tell logs whether a link is used; a ClusterLink says so itself.
func (f *found) tell(logger *slog.Logger, name string, accepted metav1.Condition) {
	message := ""
	if accepted.Status != metav1.ConditionTrue {
		message = accepted.Message
	}
	f.log(logger, name, message)
}

// log warns of what keeps a link from being used, once.
func (f *found) log(logger *slog.Logger, name, message string) {
	if f.told == nil {
		f.told = map[string]string{}
	}
	if f.told[name] != message && message != "" {
		logger.Warn("A link that was found is not used", "cluster", name, "reason", message)
	}
	f.told[name] = message
}
