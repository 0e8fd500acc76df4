//go:build unix

package tenancy

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// A Consumer that is narrowed narrows rights that were given; what does not fit any more loses its rights and stays.
func TestConsumerIsNarrowed(t *testing.T) {
	p := newProvider(t)
	west := name(t, "west")
	p.letIn(west, name(t, "extra"))
	a, extra := west+"-a", name(t, "extra")
	p.asked(west, a, "a", v1alpha1.ReasonGranted, asks("", "configmaps"), asks("example.io", "widgets"))
	p.asked(west, extra, "b", v1alpha1.ReasonGranted, asks("", "configmaps"))
	p.create(configMap(extra, "kept"))
	narrow := func(how func(*v1alpha1.ConsumerSpec)) {
		t.Helper()
		change(p, "", west, &v1alpha1.Consumer{}, func(c *v1alpha1.Consumer) { how(&c.Spec) })
	}

	narrow(func(s *v1alpha1.ConsumerSpec) {
		s.Resources = []v1alpha1.AllowedResources{resources("", "configmaps")}
	})
	p.waitRules(west, a, written("configmaps"))
	p.eventually(func() error {
		if r := p.request(west, a); len(r.Status.Refused) != 1 || len(r.Status.Granted) != 1 {
			return fmt.Errorf("status %+v", r.Status)
		}
		return nil
	})

	narrow(func(s *v1alpha1.ConsumerSpec) { s.Namespaces.Patterns = []string{west + "-*"} })
	p.answered(west, extra, v1alpha1.ReasonNotAllowed)
	p.waitRules(west, extra)
	p.waitRules(west, "", "namespaces: get of kube-system", "namespaces: get,list,watch of "+a)
	if !p.get(extra, "kept", &corev1.ConfigMap{}) || origin(p.namespace(extra)) != west {
		t.Error("a namespace that is not allowed any more was touched")
	}
	narrow(func(s *v1alpha1.ConsumerSpec) { s.Namespaces.Patterns = []string{"*"} })
	p.answered(west, extra, v1alpha1.ReasonGranted)
	p.waitRules(west, extra, written("configmaps"))

	// A lower number takes none away, and bars new ones until one goes.
	narrow(func(s *v1alpha1.ConsumerSpec) { s.Namespaces.Max = 1 })
	p.asked(west, west+"-c", "c", v1alpha1.ReasonTooMany, asks("", "configmaps"))
	p.answered(west, a, v1alpha1.ReasonGranted)
	p.answered(west, extra, v1alpha1.ReasonGranted)
	for _, gone := range []string{a, extra} {
		if err := p.as(west).Delete(t.Context(), p.request(west, gone)); err != nil {
			t.Fatal(err)
		}
	}
	p.answered(west, west+"-c", v1alpha1.ReasonGranted)

	// Another subject has the rights, and the former one none.
	other := name(t, "other")
	narrow(func(s *v1alpha1.ConsumerSpec) { s.Subject.Name = other })
	list := func(user string) func() error {
		c := p.as(user)
		return func() error { return c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(west+"-c")) }
	}
	p.may(true, "the new subject", list(other))
	p.may(false, "the former subject", list(west))
}

// What somebody changes of the rights by hand is put back.
func TestRightsArePutBack(t *testing.T) {
	p := newProvider(t)
	west := name(t, "west")
	p.letIn(west)
	a, role := west+"-a", "isthmus-consumer-"+west
	p.asked(west, a, "a", v1alpha1.ReasonGranted, asks("", "configmaps"))
	all := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	own := []string{"namespacerequests.isthmus.dev: get,list,watch,create,patch,update,delete"}

	change(p, a, role, &rbacv1.Role{}, func(r *rbacv1.Role) { r.Rules = append(r.Rules, all) })
	p.waitRules(west, a, written("configmaps"))
	change(p, a, role, &rbacv1.Role{}, func(r *rbacv1.Role) { r.Rules, r.Labels = append(r.Rules, all), nil })
	p.waitRules(west, a, written("configmaps"))
	change(p, a, role, &rbacv1.Role{}, func(r *rbacv1.Role) { r.Labels = map[string]string{"isthmus.dev/consumer": "another"}; r.Rules = nil })
	p.waitRules(west, a, written("configmaps"))
	p.remove(a, role, &rbacv1.Role{})
	p.waitRules(west, a, written("configmaps"))
	p.remove(role, role, &rbacv1.Role{})
	p.waitRules(west, role, own...)
	change(p, "", role, &rbacv1.ClusterRole{}, func(r *rbacv1.ClusterRole) { r.Rules = append(r.Rules, all) })
	p.waitRules(west, "", "namespaces: get of kube-system", "namespaces: get,list,watch of "+a)

	subjects := func(list []rbacv1.Subject, ref rbacv1.RoleRef) error {
		if len(list) != 1 || list[0].Name != west || ref.Name != role {
			return fmt.Errorf("subjects %v, role %v", list, ref)
		}
		return nil
	}
	change(p, a, role, &rbacv1.RoleBinding{}, func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "mallory" })
	p.eventually(func() error {
		b := &rbacv1.RoleBinding{}
		p.get(a, role, b)
		return subjects(b.Subjects, b.RoleRef)
	})
	// A reference to a role can't be changed: it is replaced.
	p.remove(a, role, &rbacv1.RoleBinding{})
	_ = p.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: a, Name: role, Labels: map[string]string{"isthmus.dev/consumer": west}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: west, APIGroup: rbacv1.GroupName}},
	}) // or the controller was faster
	p.eventually(func() error {
		b := &rbacv1.RoleBinding{}
		p.get(a, role, b)
		return subjects(b.Subjects, b.RoleRef)
	})
	p.remove("", role, &rbacv1.ClusterRoleBinding{})
	p.eventually(func() error {
		b := &rbacv1.ClusterRoleBinding{}
		p.get("", role, b)
		return subjects(b.Subjects, b.RoleRef)
	})
	// Somebody deletes the namespace: it is made again, empty.
	before := p.namespace(a).UID
	p.remove("", a, &corev1.Namespace{})
	p.eventually(func() error {
		if ns := p.namespace(a); ns == nil || ns.UID == before || origin(ns) != west {
			return errors.New("the namespace is not there again")
		}
		return nil
	})
	p.answered(west, a, v1alpha1.ReasonGranted)
	p.waitRules(west, a, written("configmaps"))
}

func (p *provider) remove(namespace, name string, o client.Object) {
	p.t.Helper()
	o.SetNamespace(namespace)
	o.SetName(name)
	if err := p.Delete(p.t.Context(), o); err != nil {
		p.t.Fatalf("deleting %T %s: %v", o, name, err)
	}
}

// A Consumer that is gone is out; its namespaces stay until its requests go, and then its own namespace goes.
func TestConsumerIsThrownOut(t *testing.T) {
	p := newProvider(t)
	west := name(t, "west")
	p.letIn(west)
	a, own := west+"-a", "isthmus-consumer-"+west
	p.asked(west, a, "a", v1alpha1.ReasonGranted, asks("", "configmaps"))
	p.create(configMap(a, "kept"))
	p.remove("", west, &v1alpha1.Consumer{})
	p.eventually(func() error {
		if p.get("", west, &v1alpha1.Consumer{}) {
			return errors.New("the Consumer is still there")
		}
		return nil
	})
	// By then there are no rights, with no waiting.
	for _, namespace := range []string{"", a, own} {
		if rules := p.rules(west, namespace); rules != nil {
			t.Errorf("a Consumer is gone and has rights in %q: %v", namespace, rules)
		}
	}
	p.answered(west, a, v1alpha1.ReasonNoConsumer)
	if !p.get(a, "kept", &corev1.ConfigMap{}) || p.namespace(own) == nil {
		t.Fatal("namespaces of a Consumer that is gone are gone")
	}
	c := p.as(west)
	p.may(false, "read its requests", func() error { return c.List(t.Context(), &v1alpha1.NamespaceRequestList{}, client.InNamespace(own)) })

	// The same Consumer comes back, and has what it had.
	p.letIn(west)
	p.answered(west, a, v1alpha1.ReasonGranted)
	p.waitRules(west, a, written("configmaps"))
	if !p.get(a, "kept", &corev1.ConfigMap{}) {
		t.Error("what it had is gone")
	}

	// For good: its operator deletes the namespace in which it asked.
	p.remove("", west, &v1alpha1.Consumer{})
	p.answered(west, a, v1alpha1.ReasonNoConsumer)
	p.remove("", own, &corev1.Namespace{})
	p.eventually(func() error {
		if p.namespace(a) != nil || p.namespace(own) != nil {
			return errors.New("its namespaces are still there")
		}
		return nil
	})

	// One that never asked for anything leaves nothing.
	p.letIn(west)
	p.remove("", west, &v1alpha1.Consumer{})
	p.eventually(func() error {
		if p.namespace(own) != nil {
			return errors.New("its own namespace is still there")
		}
		return nil
	})
}

// D2: what happens while the controller is away is settled alike.
func TestD2_WhileTheControllerIsAway(t *testing.T) {
	p := newProvider(t)
	west, east := name(t, "west"), name(t, "east")
	p.letIn(west)
	p.letIn(east)
	for _, suffix := range []string{"-a", "-b", "-c"} {
		p.asked(west, west+suffix, "x", v1alpha1.ReasonGranted, asks("", "configmaps"), asks("example.io", "widgets"))
	}
	p.asked(east, east+"-a", "x", v1alpha1.ReasonGranted, asks("", "configmaps"))
	p.stop()

	c := p.as(west)
	change(p, "", west, &v1alpha1.Consumer{}, func(c *v1alpha1.Consumer) {
		c.Spec.Resources = []v1alpha1.AllowedResources{resources("", "configmaps")}
	})
	if err := c.Delete(t.Context(), p.request(west, west+"-b")); err != nil {
		t.Fatal(err)
	}
	// A consumer that takes the finalizer off its own request keeps its namespace from being deleted, and has no rights there.
	cheat := p.request(west, west+"-c")
	cheat.Finalizers = nil
	if err := c.Update(t.Context(), cheat); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), cheat); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), newRequest(west, west+"-d", "x", asks("", "configmaps"))); err != nil {
		t.Fatal(err)
	}
	p.remove("", east, &v1alpha1.Consumer{})
	<-time.After(300 * time.Millisecond)
	if !p.get("", east, &v1alpha1.Consumer{}) {
		t.Error("a Consumer is gone while its rights are there")
	}

	p.run()
	p.waitRules(west, west+"-a", written("configmaps"))
	p.answered(west, west+"-d", v1alpha1.ReasonGranted)
	p.eventually(func() error {
		if p.namespace(west+"-b") != nil || p.request(west, west+"-b") != nil || p.get("", east, &v1alpha1.Consumer{}) {
			return errors.New("not settled")
		}
		return nil
	})
	p.waitRules(west, west+"-c")
	p.waitRules(east, east+"-a")
	if p.namespace(west+"-c") == nil || p.namespace(east+"-a") == nil {
		t.Error("a namespace was deleted that nobody gave back")
	}
}

// A kind that the controller itself does not hold is told to the operator, and holds up nothing else, least of all what is to be
// taken away.
func TestKindsThatTheControllerCannotHandOut(t *testing.T) {
	p := newProvider(t)
	west := name(t, "west")
	p.letIn(west)
	a := west + "-a"
	p.asked(west, a, "a", v1alpha1.ReasonGranted, asks("", "configmaps"), asks("example.io", "widgets"), asks("apps", "deployments"))
	change(p, "", west, &v1alpha1.Consumer{}, func(c *v1alpha1.Consumer) {
		c.Spec.Resources = []v1alpha1.AllowedResources{resources("apps", "*"), resources("", "configmaps")}
	})
	p.waitRules(west, a, written("configmaps")) // without widgets, and without deployments
	p.eventually(func() error {
		ready := p.consumerReady(west)
		if ready.Reason != "MissingRights" || ready.Status != metav1.ConditionFalse {
			return fmt.Errorf("%+v", ready)
		}
		if r := p.request(west, a); len(r.Status.Refused) != 2 || len(r.Status.Granted) != 1 {
			return fmt.Errorf("status %+v", r.Status)
		}
		return nil
	})
	// Wildcards are handed out by name.
	change(p, "", west, &v1alpha1.Consumer{}, func(c *v1alpha1.Consumer) {
		c.Spec.Resources = []v1alpha1.AllowedResources{resources("wild.example.io", "*"), {Group: "example.io", Resources: []string{"gadgets"}, Access: v1alpha1.AccessRead}}
	})
	change(p, "isthmus-consumer-"+west, a, &v1alpha1.NamespaceRequest{}, func(r *v1alpha1.NamespaceRequest) {
		r.Spec.Resources = []v1alpha1.RequestedResource{
			asks("wild.example.io", "oxen"), {Group: "example.io", Resource: "gadgets", Access: v1alpha1.AccessRead}, asks("example.io", "gadgets"),
		}
	})
	p.answered(west, a, v1alpha1.ReasonGranted)
	p.waitRules(west, a, readable("gadgets.example.io"), written("oxen.wild.example.io"))
	p.eventually(func() error {
		if ready := p.consumerReady(west); ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("%+v", ready)
		}
		return nil
	})
}
