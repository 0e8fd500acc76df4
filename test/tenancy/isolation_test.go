//go:build unix

package tenancy

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// Two consumers with namespaces and objects of the same names: neither credential can do anything in the other's namespaces, nor
// cluster-wide, by any verb on any kind that the cluster serves.
func TestN4_TwoConsumersSeeNothingOfEachOther(t *testing.T) {
	p := newProvider(t)
	west, east := name(t, "west"), name(t, "east")
	p.letIn(west)
	p.letIn(east)
	for _, consumer := range []string{west, east} {
		p.asked(consumer, consumer+"-team", "team", v1alpha1.ReasonGranted, asks("", "configmaps"), asks("example.io", "widgets"))
		c := p.as(consumer)
		p.may(true, "create a widget", func() error {
			return client.IgnoreAlreadyExists(c.Create(t.Context(), widget(consumer+"-team", "blue")))
		})
	}
	for _, pair := range [][2]string{{west, east}, {east, west}} {
		me, other := pair[0], pair[1]
		allowed := p.walk(me, other+"-team", "isthmus-consumer-"+other, "kube-system", "default", home, "")
		want := map[string]bool{
			"get namespaces/kube-system in ": true,
		}
		for _, verb := range []string{"get", "list", "watch"} {
			want[verb+" namespaces/"+me+"-team in "] = true
			want[verb+" customresourcedefinitions.apiextensions.k8s.io/widgets.example.io in "] = true
		}
		for what := range allowed {
			if !want[what] {
				t.Errorf("%s may %s", me, what)
			}
		}
		// And as real requests.
		c := p.as(me)
		p.may(false, "read the other's object", func() error {
			return c.Get(t.Context(), client.ObjectKey{Namespace: other + "-team", Name: "blue"}, widget("", ""))
		})
		p.may(false, "list the other's objects", func() error { return c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(other+"-team")) })
		p.may(false, "list all objects", func() error { return c.List(t.Context(), &corev1.ConfigMapList{}) })
		p.may(false, "delete the other's object", func() error { return c.Delete(t.Context(), widget(other+"-team", "blue")) })
		p.may(false, "read the other's requests", func() error {
			return c.List(t.Context(), &v1alpha1.NamespaceRequestList{}, client.InNamespace("isthmus-consumer-"+other))
		})
		p.may(false, "list all requests", func() error { return c.List(t.Context(), &v1alpha1.NamespaceRequestList{}) })
		p.may(false, "list Consumers", func() error { return c.List(t.Context(), &v1alpha1.ConsumerList{}) })
		p.may(false, "see the other's namespace", func() error {
			return c.Get(t.Context(), client.ObjectKey{Name: other + "-team"}, &corev1.Namespace{})
		})
		// What is asked for and taken tells nothing but that.
		request := p.asked(me, other+"-team", "team", v1alpha1.ReasonNotAllowed)
		for _, condition := range request.Status.Conditions {
			if strings.Contains(condition.Message, "team of") || strings.Contains(condition.Message, "uid-of-"+other) {
				t.Errorf("the answer tells of others: %s", condition.Message)
			}
		}
	}
}

// walk asks the API server, for every verb on every kind, whether a user may do it in namespaces ("": cluster-wide), to any object and to
// some by name, and returns what it may beyond what every authenticated user may.
func (p *provider) walk(user string, namespaces ...string) map[string]bool {
	p.t.Helper()
	config, err := p.c.UserConfig(user)
	if err != nil {
		p.t.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		p.t.Fatal(err)
	}
	_, lists, err := disco.ServerGroupsAndResources()
	if err != nil {
		p.t.Fatal(err)
	}
	type question struct{ verb, group, resource, sub, name, namespace string }
	var all []question
	for _, list := range lists {
		group, _, _ := strings.Cut(list.GroupVersion, "/")
		if group == list.GroupVersion {
			group = ""
		}
		for _, r := range list.APIResources {
			resource, sub, _ := strings.Cut(r.Name, "/")
			for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate"} {
				for _, namespace := range namespaces {
					all = append(all, question{verb, group, resource, sub, "", namespace})
				}
				if resource == "namespaces" {
					for _, name := range append(namespaces, user+"-team") {
						all = append(all, question{verb, group, resource, sub, name, ""})
					}
				}
				if resource == "customresourcedefinitions" {
					for _, name := range []string{"widgets.example.io", "gadgets.example.io", "consumers.isthmus.dev"} {
						all = append(all, question{verb, group, resource, sub, name, ""})
					}
				}
			}
		}
	}
	c, nobody := p.as(user), p.as("nobody-"+user)
	ask := func(c client.Client, q question) bool {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: q.verb, Group: q.group, Resource: q.resource, Subresource: q.sub, Name: q.name, Namespace: q.namespace,
		}}}
		if err := c.Create(p.t.Context(), review); err != nil {
			p.t.Errorf("asking %+v: %v", q, err)
		}
		return review.Status.Allowed
	}
	allowed := map[string]bool{}
	var mu sync.Mutex
	var workers sync.WaitGroup
	questions := make(chan question)
	for range 8 {
		workers.Go(func() {
			for q := range questions {
				if !ask(c, q) || ask(nobody, q) {
					continue
				}
				what := q.verb + " " + q.resource
				if q.group != "" {
					what += "." + q.group
				}
				if q.sub != "" {
					what += "[" + q.sub + "]"
				}
				if q.name != "" {
					what += "/" + q.name
				}
				mu.Lock()
				allowed[what+" in "+q.namespace] = true
				mu.Unlock()
			}
		})
	}
	for _, q := range all {
		questions <- q
	}
	close(questions)
	workers.Wait()
	p.t.Logf("asked %d questions as %s", len(all), user)
	return allowed
}

// A tenant that may do what it was given tries to get more.
func TestEscalationsComeToNothing(t *testing.T) {
	p := newProvider(t)
	west := name(t, "west")
	p.letIn(west, "*")
	change(p, "", west, &v1alpha1.Consumer{}, func(c *v1alpha1.Consumer) { // an operator that is too generous
		c.Spec.Resources = append(c.Spec.Resources, resources("rbac.authorization.k8s.io", "roles", "rolebindings"), resources("wild.example.io", "*"))
	})
	c, own, a := p.as(west), "isthmus-consumer-"+west, west+"-a"

	for _, taken := range []string{"kube-system", "kube-public", "default", home, own, "isthmus-anything"} {
		p.asked(west, taken, "x", v1alpha1.ReasonNotAllowed, asks("", "configmaps"))
	}
	p.asked(west, west+"-none", "x", v1alpha1.ReasonNoResources, asks("", "secrets"), asks("", "namespaces"), asks("rbac.authorization.k8s.io", "clusterroles"))
	p.asked(west, a, "x", v1alpha1.ReasonGranted, asks("", "configmaps"), asks("", "namespaces"), asks("", "secrets"),
		asks("rbac.authorization.k8s.io", "roles"), asks("rbac.authorization.k8s.io", "rolebindings"))
	p.waitRules(west, a, written("configmaps"), written("rolebindings.rbac.authorization.k8s.io"), written("roles.rbac.authorization.k8s.io"))

	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("ask for *", c.Create(t.Context(), newRequest(west, west+"-w", "x", asks("wild.example.io", "*"))))
	refused("ask for a subresource", c.Create(t.Context(), newRequest(west, west+"-w", "x", asks("", "pods/exec"))))
	refused("ask in another's namespace", c.Create(t.Context(), newRequest("another", west+"-w", "x")))
	refused("ask in its twin namespace's Consumer", c.Create(t.Context(), &v1alpha1.Consumer{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: v1alpha1.ConsumerSpec{
		Subject: v1alpha1.Subject{Kind: "User", Name: west}, Resources: []v1alpha1.AllowedResources{resources("", "*")}, Namespaces: v1alpha1.AllowedNamespaces{Patterns: []string{"*"}},
	}}))
	merge := func(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }
	refused("write its status", c.Status().Patch(t.Context(), p.request(west, a), merge(`{"status":{"granted":[{"resource":"secrets"}]}}`)))
	before := p.request(west, a).Status
	if err := c.Patch(t.Context(), p.request(west, a), merge(`{"status":{"granted":[{"resource":"secrets"}]}}`)); err != nil || len(p.request(west, a).Status.Granted) != len(before.Granted) {
		t.Errorf("status through the object itself: %v, %+v", err, p.request(west, a).Status)
	}
	refused("change its Consumer", c.Patch(t.Context(), &v1alpha1.Consumer{ObjectMeta: metav1.ObjectMeta{Name: west}}, merge(`{"spec":{"namespaces":{"max":1000}}}`)))
	for _, target := range []string{a, "default", "kube-system"} {
		refused("annotate "+target, c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target}}, merge(`{"metadata":{"annotations":{"isthmus.dev/give-to":"`+west+`"}}}`)))
	}
	refused("create a namespace", c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: west + "-z"}}))
	refused("another's source", c.Patch(t.Context(), p.request(west, a), merge(`{"spec":{"source":{"clusterUID":"uid-of-another"}}}`)))

	// Through its Role: nothing that it does not hold, and what it changes is put back.
	all := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	refused("a Role with more", c.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: a, Name: "more"}, Rules: []rbacv1.PolicyRule{all}}))
	refused("more in its Role", c.Patch(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: a, Name: own}}, merge(`{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`)))
	refused("a binding to a ClusterRole", c.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: a, Name: "more"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: west, APIGroup: rbacv1.GroupName}},
	}))
	if err := c.Delete(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: a, Name: own}}); err != nil {
		t.Fatal(err)
	}
	p.waitRules(west, a, written("configmaps"), written("rolebindings.rbac.authorization.k8s.io"), written("roles.rbac.authorization.k8s.io"))
}

// Two consumers ask for the same free names at once: each name has one origin, and the other one is refused.
func TestN4_TwoOriginsRaceForNamespaces(t *testing.T) {
	p := newProvider(t)
	west, east := name(t, "west"), name(t, "east")
	p.letIn(west, name(t, "race")+"*")
	p.letIn(east, name(t, "race")+"*")
	const races = 12
	var both sync.WaitGroup
	for _, consumer := range []string{west, east} {
		c := p.as(consumer)
		both.Go(func() {
			for i := range races {
				if err := c.Create(t.Context(), newRequest(consumer, fmt.Sprintf("%s%d", name(t, "race"), i), "team", asks("", "configmaps"))); err != nil {
					t.Errorf("%s asks: %v", consumer, err)
				}
			}
		})
	}
	both.Wait()
	for i := range races {
		contested := fmt.Sprintf("%s%d", name(t, "race"), i)
		var owner string
		p.eventually(func() error {
			if owner = origin(p.namespace(contested)); owner == "" {
				return errors.New("nobody has it")
			}
			return nil
		})
		other := west
		if owner == west {
			other = east
		}
		p.answered(owner, contested, v1alpha1.ReasonGranted)
		p.answered(other, contested, v1alpha1.ReasonTaken)
		p.waitRules(owner, contested, written("configmaps"))
		p.waitRules(other, contested)
	}
	// The owner gives one back: the other one gets it, by itself.
	contested := name(t, "race") + "0"
	owner := origin(p.namespace(contested))
	other := west
	if owner == west {
		other = east
	}
	if err := p.as(owner).Delete(t.Context(), p.request(owner, contested)); err != nil {
		t.Fatal(err)
	}
	p.answered(other, contested, v1alpha1.ReasonGranted)
}
