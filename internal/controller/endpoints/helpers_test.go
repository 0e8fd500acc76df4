//go:build unix

package endpoints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/observe"
)

// user is whom the receiver under test runs as.
const user = "isthmus-endpoints-test"

// rights are what the receiver needs, and nothing else.
var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusterlinks", "shadowendpointslices"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusterlinks/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
}

// receiving is a receiver that runs.
type receiving struct {
	*side
	metrics *observe.Metrics
	began   time.Time
	stop    func()
}

// receive runs a receiver on the shared cluster, until the test ends or stop is called. At the end there are no links left.
func (s *side) receive(settle time.Duration) *receiving {
	s.t.Helper()
	rule, subject := "isthmus-endpoints-test", []rbacv1.Subject{{Kind: "User", Name: user, APIGroup: "rbac.authorization.k8s.io"}}
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: rule}, Rules: rights},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: rule}, Subjects: subject, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: rule, APIGroup: "rbac.authorization.k8s.io"}},
	} {
		if err := client.IgnoreAlreadyExists(s.Create(s.t.Context(), o)); err != nil {
			s.t.Fatal(err)
		}
	}
	config, err := s.UserConfig(user)
	if err != nil {
		s.t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Scheme: s.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	r := &receiving{side: s, metrics: observe.NewMetrics("test"), began: time.Now()}
	log := slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	if _, err := Setup(mgr, Options{ClusterID: "here", Settle: settle, Metrics: r.metrics, Logger: log}); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("the manager ended: %v", err)
		}
	}
	s.t.Cleanup(r.stop)
	return r
}

// clean removes what the tests of one cluster would get in each other's way with.
func (s *side) clean() {
	s.t.Cleanup(func() {
		ctx := context.Background()
		if err := s.DeleteAllOf(ctx, &v1alpha1.ClusterLink{}); err != nil {
			s.t.Error(err)
		}
		namespaces := &corev1.NamespaceList{}
		if err := s.List(ctx, namespaces, client.HasLabels{boundary.LabelOrigin}); err != nil {
			s.t.Error(err)
		}
		for _, ns := range namespaces.Items {
			for _, o := range []client.Object{&v1alpha1.ShadowEndpointSlice{}, &discoveryv1.EndpointSlice{}} {
				if err := s.DeleteAllOf(ctx, o, client.InNamespace(ns.Name)); err != nil {
					s.t.Error(err)
				}
			}
		}
	})
}

// namespace makes a namespace that belongs to a consumer.
func (s *side) namespace(name, consumer string) {
	s.t.Helper()
	s.make(parse[corev1.Namespace](s.t, "{metadata: {name: %s, labels: {isthmus.dev/origin: %q}}}", name, consumer))
}

// twin returns a ShadowEndpointSlice as the engine of a consumer stamps it.
func twin(t testing.TB, consumer, namespace, name, spec string) *v1alpha1.ShadowEndpointSlice {
	o := parse[v1alpha1.ShadowEndpointSlice](t, "{metadata: {namespace: %s, name: %s, labels: {kubernetes.io/service-name: web}}, spec: {%s}}", namespace, name, spec)
	o.Labels[boundary.LabelOrigin] = consumer
	o.Annotations = map[string]string{
		boundary.AnnotationWriter: consumer + "/controller/uid", boundary.AnnotationRule: "services", boundary.AnnotationSource: "shop/" + name,
		boundary.AnnotationSourceUID: "uid", boundary.AnnotationSourceGeneration: "1", boundary.AnnotationTwin: namespace + "/" + name, boundary.AnnotationApplied: "v1:x",
	}
	return o
}

// link makes a ClusterLink.
func (s *side) link(name, spec string) {
	s.t.Helper()
	s.make(parse[v1alpha1.ClusterLink](s.t, "{metadata: {name: %s}, spec: {%s}}", name, spec))
}

// connect says on a ClusterLink whether it is up, as whoever runs the network does.
func (s *side) connect(name string, up bool) {
	s.t.Helper()
	status := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[up]
	eventually(s.t.(*testing.T), func() error {
		link := &v1alpha1.ClusterLink{}
		if err := s.Get(s.t.Context(), types.NamespacedName{Name: name}, link); err != nil {
			return err
		}
		meta.SetStatusCondition(&link.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConnected, Status: status, Reason: "Network"})
		return s.Status().Update(s.t.Context(), link)
	})
}

// slice returns the EndpointSlice of a name; nil: there is none.
func (s *side) slice(namespace, name string) *discoveryv1.EndpointSlice {
	s.t.Helper()
	o := &discoveryv1.EndpointSlice{}
	switch err := s.Get(s.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, o); {
	case client.IgnoreNotFound(err) != nil:
		s.t.Fatal(err)
	case err != nil:
		return nil
	}
	return o
}

// holds says that a slice does not hold what is expected: its endpoints' first addresses, with ! before those that are not ready.
func (s *side) holds(namespace, name string, want ...string) error {
	s.t.Helper()
	o := s.slice(namespace, name)
	if o == nil {
		return fmt.Errorf("EndpointSlice %s/%s is not there", namespace, name)
	}
	got := []string{}
	for _, e := range o.Endpoints {
		text := strings.Join(e.Addresses, "+")
		if ready, serving := e.Conditions.Ready, e.Conditions.Serving; ready != nil && !*ready && serving != nil && !*serving {
			text = "!" + text
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("EndpointSlice %s/%s holds %v, expected %v", namespace, name, got, want)
	}
	return nil
}

// becomes waits until a slice holds what is expected.
func (s *side) becomes(namespace, name string, want ...string) {
	s.t.Helper()
	eventually(s.t.(*testing.T), func() error { return s.holds(namespace, name, want...) })
}

// hasEvent says that no Event about a ShadowEndpointSlice has a reason and a text.
func (s *side) hasEvent(namespace, name, reason, text string) error {
	list := &corev1.EventList{}
	if err := s.List(s.t.Context(), list, client.InNamespace(namespace)); err != nil {
		return err
	}
	var all []string
	for _, e := range list.Items {
		if e.InvolvedObject.Name == name && e.InvolvedObject.Kind == "ShadowEndpointSlice" {
			all = append(all, e.Reason+": "+e.Message)
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
		}
	}
	return fmt.Errorf("no Event %s: …%s… about %s/%s: %q", reason, text, namespace, name, all)
}

// condition says that a ClusterLink has another condition than expected.
func (s *side) condition(link, kind string, status metav1.ConditionStatus, reason, text string) error {
	o := &v1alpha1.ClusterLink{}
	if err := s.Get(s.t.Context(), types.NamespacedName{Name: link}, o); err != nil {
		return err
	}
	c := meta.FindStatusCondition(o.Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, text) || c.ObservedGeneration != o.Generation {
		return fmt.Errorf("%s of ClusterLink %s is %+v, expected %s, %s: …%s…", kind, link, c, status, reason, text)
	}
	return nil
}

// writes returns what the receiver wrote, but for Events.
func (s *side) writes(since time.Time) (out []string) {
	s.t.Helper()
	events, err := s.AuditSince(since)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		if e.User.Username == user && e.IsWrite() && e.ObjectRef != nil && e.ObjectRef.Resource != "events" && e.Code() < 300 {
			out = append(out, fmt.Sprintf("%s %s %s/%s %d", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name, e.Code()))
		}
	}
	return out
}

// metric says that a metric has another value than expected.
func (r *receiving) metric(name, label string, want float64) error {
	families, err := r.metrics.Registry().Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
				if got := m.GetGauge().GetValue(); got != want {
					return fmt.Errorf("%s of %s is %v, expected %v", name, label, got, want)
				}
				return nil
			}
		}
	}
	return fmt.Errorf("there is no %s of %s", name, label)
}

// all waits for several checks at once.
func all(checks ...error) error { return errors.Join(checks...) }
