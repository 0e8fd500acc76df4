package tenancy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
)

func kind(group, resource string, access v1alpha1.CrossingAccess) v1alpha1.RequestedResource {
	return v1alpha1.RequestedResource{Group: group, Resource: resource, Access: access}
}

const (
	write = v1alpha1.AccessWrite
	read  = v1alpha1.AccessRead
)

func TestMayAskFor(t *testing.T) {
	tests := []struct {
		name     string
		patterns string
		want     bool
	}{
		{"west-a", "west-*", true},
		{"west-a", "east-*,west-?", true},
		{"west-ab", "west-?", false},
		{"awest-", "west-*", false},
		{"anything", "*", true},
		{"kube-system", "*", false},
		{"kube-system", "kube-system", false},
		{"kube-x", "kube-*", false},
		{"kubernetes", "*", true},
		{"isthmus-consumer-east", "*,isthmus-*", false},
		{"isthmus-system", "*", false},
		{"default", "*,default", false},
		{"controller-home", "*", false},
		{"a", "", false},
		{"a", "[a", false}, // which the API does not admit
	}
	for _, tt := range tests {
		if got := mayAskFor(strings.Split(tt.patterns, ","), tt.name, "controller-home"); got != tt.want {
			t.Errorf("%s by %s: %v", tt.name, tt.patterns, got)
		}
	}
}

func TestPart(t *testing.T) {
	allowed := []v1alpha1.AllowedResources{
		{Group: "example.io", Resources: []string{"widgets"}, Access: write},
		{Group: "example.io", Resources: []string{"gadgets"}, Access: read},
		{Group: "example.org", Resources: []string{"*"}, Access: write},
		{Resources: []string{"*"}, Access: read},
		{Resources: []string{"configmaps", "namespaces"}, Access: write},
	}
	tests := []struct {
		asked v1alpha1.RequestedResource
		want  bool
	}{
		{kind("example.io", "widgets", write), true},
		{kind("example.io", "widgets", ""), true},
		{kind("example.io", "widgets", read), true},
		{kind("example.io", "gadgets", read), true},
		{kind("example.io", "gadgets", write), false},
		{kind("example.io", "others", read), false},
		{kind("example.com", "widgets", read), false},
		{kind("example.org", "anything", write), true},
		{kind("example.org", "*", write), false},
		{kind("example.org", "anything/status", write), false},
		{kind("example.org", "", write), false},
		{kind("", "secrets", read), true},
		{kind("", "secrets", write), false},
		{kind("", "configmaps", write), true},
		{kind("", "pods/exec", read), false},
		{kind("", "namespaces", read), false},
		{kind("", "namespaces", write), false},
		{kind("rbac.authorization.k8s.io", "roles", write), false},
	}
	for _, tt := range tests {
		granted, refused := part(allowed, []v1alpha1.RequestedResource{tt.asked})
		if (len(granted) == 1) != tt.want || len(granted)+len(refused) != 1 {
			t.Errorf("%+v: granted %v, refused %v", tt.asked, granted, refused)
		}
	}
	granted, refused := part(allowed, []v1alpha1.RequestedResource{
		kind("example.io", "widgets", write), kind("", "configmaps", write), kind("example.io", "widgets", ""), kind("a", "z", write), kind("a", "b", write),
	})
	if diff := cmp.Diff([]v1alpha1.RequestedResource{kind("", "configmaps", write), kind("example.io", "widgets", write)}, granted); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]v1alpha1.RequestedResource{kind("a", "b", write), kind("a", "z", write)}, refused); diff != "" {
		t.Error(diff)
	}
}

func TestN4_Decide(t *testing.T) {
	consumer := &v1alpha1.Consumer{Spec: v1alpha1.ConsumerSpec{
		Resources:  []v1alpha1.AllowedResources{{Group: "example.io", Resources: []string{"widgets"}, Access: write}},
		Namespaces: v1alpha1.AllowedNamespaces{Patterns: []string{"team-*"}, Max: 3},
	}}
	request := func(name string, resources ...v1alpha1.RequestedResource) *v1alpha1.NamespaceRequest {
		return &v1alpha1.NamespaceRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.NamespaceRequestSpec{Source: v1alpha1.SourceNamespace{Name: "a", ClusterUID: "uid", Instance: "controller"}, Resources: resources},
		}
	}
	widgets := kind("example.io", "widgets", write)
	const ours = "west/controller/uid"
	mine := namespaceState{exists: true, origin: "west", writer: ours, consent: v1alpha1.ConsentCreated}
	with := func(ns namespaceState, change func(*namespaceState)) namespaceState {
		change(&ns)
		return ns
	}
	tests := []struct {
		name    string
		q       question
		allowed bool
		step    step
		reason  string
		message string
	}{
		{"no consumer", question{request: request("team-a")}, false, nothing, v1alpha1.ReasonNoConsumer, ""},
		{"a free name", question{consumer: consumer, request: request("team-a", widgets)}, true, create, v1alpha1.ReasonGranted, ""},
		{"nothing asked for yet", question{consumer: consumer, request: request("team-a")}, true, create, v1alpha1.ReasonGranted, ""},
		{"another name", question{consumer: consumer, request: request("other", widgets)}, false, nothing, v1alpha1.ReasonNotAllowed, ""},
		{"another name that exists", question{consumer: consumer, request: request("other", widgets), namespace: namespaceState{exists: true}}, false, nothing, v1alpha1.ReasonNotAllowed, ""},
		{"nothing allowed", question{consumer: consumer, request: request("team-a", kind("", "secrets", write))}, false, nothing, v1alpha1.ReasonNoResources, ""},
		{"part allowed", question{consumer: consumer, request: request("team-a", widgets, kind("", "secrets", read))}, true, create, v1alpha1.ReasonGranted, "not allowed: secrets (to read)"},
		{"too many", question{consumer: consumer, request: request("team-a"), full: true}, false, nothing, v1alpha1.ReasonTooMany, ": 3"},
		{"too many, but this one is there", question{consumer: consumer, request: request("team-a"), full: true, namespace: mine}, true, nothing, v1alpha1.ReasonGranted, ""},
		{"ours", question{consumer: consumer, request: request("team-a", widgets), namespace: mine}, true, nothing, v1alpha1.ReasonGranted, ""},
		{"made by the consumer's Isthmus, before consent", question{consumer: consumer, request: request("team-a"), namespace: with(mine, func(n *namespaceState) { n.consent = "" })}, true, nothing, v1alpha1.ReasonGranted, ""},
		{"ours, terminating", question{consumer: consumer, request: request("team-a"), namespace: with(mine, func(n *namespaceState) { n.terminating = true })}, false, nothing, v1alpha1.ReasonNamespaceGoing, ""},
		{"nobody's", question{consumer: consumer, request: request("team-a"), namespace: namespaceState{exists: true}}, false, nothing, v1alpha1.ReasonTaken, "isthmus.dev/give-to: west"},
		{"nobody's, terminating", question{consumer: consumer, request: request("team-a"), namespace: namespaceState{exists: true, terminating: true}}, false, nothing, v1alpha1.ReasonTaken, ""},
		{"given", question{consumer: consumer, request: request("team-a"), namespace: namespaceState{exists: true, giveTo: "west"}}, true, take, v1alpha1.ReasonGranted, ""},
		{"given, terminating", question{consumer: consumer, request: request("team-a"), namespace: namespaceState{exists: true, giveTo: "west", terminating: true}}, false, nothing, v1alpha1.ReasonNamespaceGoing, ""},
		{"given, too many", question{consumer: consumer, request: request("team-a"), full: true, namespace: namespaceState{exists: true, giveTo: "west"}}, false, nothing, v1alpha1.ReasonTooMany, ""},
		{"given, but by a name that is not allowed", question{consumer: consumer, request: request("other"), namespace: namespaceState{exists: true, giveTo: "west"}}, false, nothing, v1alpha1.ReasonNotAllowed, ""},
		{"given to another", question{consumer: consumer, request: request("team-a"), namespace: namespaceState{exists: true, giveTo: "east"}}, false, nothing, v1alpha1.ReasonTaken, "another consumer"},
		{"given, but another has it", question{consumer: consumer, request: request("team-a"), namespace: namespaceState{exists: true, giveTo: "west", origin: "east", writer: "east/controller/x"}}, false, nothing, v1alpha1.ReasonTaken, "another consumer"},
		{"taken, and given", question{consumer: consumer, request: request("team-a"), namespace: with(mine, func(n *namespaceState) { n.consent, n.giveTo = v1alpha1.ConsentGiven, "west" })}, true, nothing, v1alpha1.ReasonGranted, ""},
		{"taken, given no more", question{consumer: consumer, request: request("team-a"), namespace: with(mine, func(n *namespaceState) { n.consent = v1alpha1.ConsentGiven })}, false, release, v1alpha1.ReasonTaken, "does not give it any more"},
		{"another origin's", question{consumer: consumer, request: request("team-a"), namespace: namespaceState{exists: true, origin: "east", writer: "east/controller/x"}}, false, nothing, v1alpha1.ReasonTaken, "another consumer"},
		{"another cluster of our ID", question{consumer: consumer, request: request("team-a"), namespace: namespaceState{exists: true, origin: "west", writer: "west/controller/before"}}, false, nothing, v1alpha1.ReasonTaken, "another cluster"},
		{"half a stamp", question{consumer: consumer, request: request("team-a"), namespace: namespaceState{exists: true, writer: ours, giveTo: "west"}}, false, nothing, v1alpha1.ReasonTaken, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.q.name = "west"
			got := decide(tt.q)
			if got.allowed != tt.allowed || got.step != tt.step || got.reason != tt.reason || !strings.Contains(got.message, tt.message) {
				t.Errorf("got %+v", got)
			}
			if len(got.granted)+len(got.refused) != len(tt.q.request.Spec.Resources) {
				t.Errorf("lost what was asked for: %+v", got)
			}
			for _, secret := range []string{"east", "before", "uid"} {
				if strings.Contains(got.message, secret) {
					t.Errorf("the message tells what others have: %s", got.message)
				}
			}
		})
	}
}
