//go:build unix

package endpoints

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
)

const (
	toHome = "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.80.0.0/16}], externalCIDRs: [{native: 10.90.0.0/16, seenAs: 10.81.0.0/16}]"
	toOne  = "podCIDRs: [{native: 10.0.0.0/16, seenAs: 10.82.0.0/16}]"
	// both is an endpoint on cluster one, its of the consumer.
	both = "{origin: {clusterID: one, addresses: [10.0.0.5]}, via: {addresses: [10.90.0.5]}}"
	its  = "{origin: {clusterID: home, addresses: [10.0.0.5]}, via: {addresses: [10.0.0.5]}}"
)

func ipv4(endpoints ...string) string {
	return "addressType: IPv4, ports: [{port: 80}], endpoints: [" + strings.Join(endpoints, ", ") + "]"
}

// Endpoints follow the links: one that comes, goes, changes its networks, is down, or is denied; and what others did meanwhile.
func TestE5_EndpointsFollowLinks(t *testing.T) {
	s := newSide(t)
	s.clean()
	r := s.receive(50 * time.Millisecond)
	s.namespace("follow", "home")
	s.make(twin(t, "home", "follow", "web", ipv4(both, its)))
	s.becomes("follow", "web") // a link later than the slice: nothing is guessed, and the slice is there
	eventually(t, func() error { return s.hasEvent("follow", "web", "NoLink", "2 of 2 endpoints are left out") })

	s.link("home", toHome)
	s.becomes("follow", "web", "10.81.0.5", "10.80.0.5")
	s.link("one", toOne)
	s.becomes("follow", "web", "10.82.0.5", "10.80.0.5")
	slice := s.slice("follow", "web")
	if slice.Labels[discoveryv1.LabelServiceName] != "web" || slice.Labels[discoveryv1.LabelManagedBy] != "endpoints.isthmus.dev" ||
		len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].Kind != "ShadowEndpointSlice" || *slice.Ports[0].Port != 80 {
		t.Errorf("the slice is %+v", slice)
	}
	eventually(t, func() error {
		return all(r.metric("isthmus_received_endpoints", "direct", 2), r.metric("isthmus_received_endpoints", "via", 0), r.metric("isthmus_received_slices", "in_step", 1), r.metric("isthmus_link_up", "one", 1),
			s.condition("one", "Accepted", metav1.ConditionTrue, "Accepted", ""))
	})

	s.connect("one", false)
	s.becomes("follow", "web", "10.81.0.5", "10.80.0.5")
	s.connect("home", false) // E7
	s.becomes("follow", "web", "!10.81.0.5", "!10.80.0.5")
	s.connect("one", true)
	s.becomes("follow", "web", "10.82.0.5", "!10.80.0.5")
	s.connect("home", true)
	s.becomes("follow", "web", "10.82.0.5", "10.80.0.5")

	change := func(patch string) {
		t.Helper()
		if err := s.Patch(t.Context(), &v1alpha1.ClusterLink{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	change(`{"spec": {"podCIDRs": [{"native": "10.0.0.0/16", "seenAs": "10.83.0.0/16"}]}}`)
	s.becomes("follow", "web", "10.83.0.5", "10.80.0.5")
	change(`{"spec": {"directConnections": "Deny"}}`)
	s.becomes("follow", "web", "10.81.0.5", "10.80.0.5")
	change(`{"spec": {"directConnections": "Allow"}}`)
	s.becomes("follow", "web", "10.83.0.5", "10.80.0.5")

	// A link that overlaps with one that was there before is not used, until that one is gone.
	s.link("zwei", "podCIDRs: [{native: 10.4.0.0/24, seenAs: 10.83.7.0/24}]")
	eventually(t, func() error {
		return s.condition("zwei", "Accepted", metav1.ConditionFalse, "Overlap", "10.83.7.0/24 overlaps with 10.83.0.0/16 of ClusterLink one")
	})
	s.link("here", "podCIDRs: [{native: 10.4.0.0/24}]")
	eventually(t, func() error { return s.condition("here", "Accepted", metav1.ConditionFalse, "OwnCluster", "") })
	if err := s.Delete(t.Context(), &v1alpha1.ClusterLink{ObjectMeta: metav1.ObjectMeta{Name: "one"}}); err != nil {
		t.Fatal(err)
	}
	s.becomes("follow", "web", "10.81.0.5", "10.80.0.5")
	eventually(t, func() error { return s.condition("zwei", "Accepted", metav1.ConditionTrue, "Accepted", "") })

	// What others do to the slice is put back; what they add stays.
	slice = s.slice("follow", "web")
	slice.Labels["theirs"], slice.Labels[discoveryv1.LabelServiceName], slice.Endpoints = "x", "other", slice.Endpoints[:1]
	if err := s.Update(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	s.becomes("follow", "web", "10.81.0.5", "10.80.0.5")
	if slice = s.slice("follow", "web"); slice.Labels["theirs"] != "x" || slice.Labels[discoveryv1.LabelServiceName] != "web" {
		t.Errorf("labels are %v", slice.Labels)
	}
	if err := s.Delete(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	s.becomes("follow", "web", "10.81.0.5", "10.80.0.5")
}

// An address that a cluster's link does not give it is left out, and nothing else; slices of others than the namespace's
// consumer are not taken; another's EndpointSlice is never written.
func TestE6_WhatIsRefused(t *testing.T) {
	s := newSide(t)
	s.clean()
	r := s.receive(50 * time.Millisecond)
	s.link("home", toHome)
	s.link("one", toOne)
	s.namespace("refuse", "home")
	s.namespace("others", "victim")

	outside := "{origin: {clusterID: one, addresses: [10.9.0.5]}, via: {addresses: [10.90.0.6]}}"
	s.make(twin(t, "home", "refuse", "outside", ipv4(both, outside, "{via: {addresses: [169.254.169.254]}}", its)))
	s.becomes("refuse", "outside", "10.82.0.5", "10.80.0.5")
	eventually(t, func() error {
		return all(s.hasEvent("refuse", "outside", "AddressOutsideCIDRs", "1 of 4 endpoints are left out: 10.9.0.5 is said to be of cluster one"),
			r.metric("isthmus_refused_endpoints", "AddressOutsideCIDRs", 1), r.metric("isthmus_refused_endpoints", "InvalidEndpoint", 1))
	})

	// A forged origin, in a namespace of another consumer and in the own one; a copy of a twin; and what carries no stamp.
	s.make(twin(t, "home", "others", "forged", ipv4(its)))
	s.make(twin(t, "victim", "refuse", "forged", ipv4(its)))
	copied := twin(t, "home", "refuse", "copied", ipv4(its))
	copied.Annotations["isthmus.dev/twin"] = "refuse/outside"
	s.make(copied)
	own := twin(t, "home", "refuse", "own", ipv4(its))
	own.Labels, own.Annotations = map[string]string{discoveryv1.LabelServiceName: "web"}, nil
	s.make(own)
	// Another's slice is in the way.
	foreign := parse[discoveryv1.EndpointSlice](t, "{metadata: {namespace: refuse, name: foreign, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, endpoints: [{addresses: [10.1.1.1]}]}")
	s.make(foreign)
	labelled := foreign.DeepCopy()
	labelled.ObjectMeta = metav1.ObjectMeta{Namespace: "refuse", Name: "labelled", Labels: map[string]string{discoveryv1.LabelManagedBy: v1alpha1.EndpointsManager}}
	s.make(labelled)
	for _, name := range []string{"foreign", "labelled"} {
		s.make(twin(t, "home", "refuse", name, ipv4(its)))
	}
	eventually(t, func() error {
		return all(
			s.hasEvent("others", "forged", "NotTaken", "cluster home, and namespace others belongs to victim"), s.hasEvent("refuse", "forged", "NotTaken", "belongs to home"),
			s.hasEvent("refuse", "copied", "NotTaken", "stamp"), s.hasEvent("refuse", "foreign", "ForeignObject", ""), s.hasEvent("refuse", "labelled", "ForeignObject", ""),
			r.metric("isthmus_received_slices", "foreign", 2), r.metric("isthmus_received_slices", "refused", 3), r.metric("isthmus_received_slices", "in_step", 1),
		)
	})
	s.make(twin(t, "home", "refuse", "last", ipv4(its))) // when this one is there, the others were looked at
	s.becomes("refuse", "last", "10.80.0.5")
	for _, name := range []string{"copied", "own", "forged"} {
		if s.slice("refuse", name) != nil {
			t.Errorf("an EndpointSlice was made of %s", name)
		}
	}
	if s.slice("others", "forged") != nil {
		t.Error("an EndpointSlice was made in another consumer's namespace")
	}
	if got := s.slice("refuse", "foreign"); got.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("another's slice was written: %+v", got)
	}
	if got := s.slice("refuse", "labelled"); got.ResourceVersion != labelled.ResourceVersion {
		t.Errorf("another's slice with our label was written: %+v", got)
	}
	// When the other one goes, and when the namespace becomes the consumer's, the slice crosses by itself.
	for _, o := range []client.Object{foreign, labelled} {
		if err := s.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	s.becomes("refuse", "foreign", "10.80.0.5")
	s.becomes("refuse", "labelled", "10.80.0.5")
	give := func(to string) {
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"labels": {"isthmus.dev/origin": %q}}}`, to))
		namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "others"}}
		namespace.SetGroupVersionKind(namespaceKind)
		if err := s.Patch(t.Context(), namespace, patch); err != nil {
			t.Fatal(err)
		}
	}
	give("home")
	s.becomes("others", "forged", "10.80.0.5")
	give("victim")
	eventually(t, func() error {
		if s.slice("others", "forged") != nil {
			return fmt.Errorf("the slice in a namespace of another consumer is still there")
		}
		return nil
	})
}

// A slice as large as one may be, of IPv6 and with several addresses an endpoint, crosses whole; what the server refuses is told.
func TestE8_LargeAndInvalidSlices(t *testing.T) {
	s := newSide(t)
	s.clean()
	r := s.receive(50 * time.Millisecond)
	s.namespace("large", "home")
	s.link("home", "podCIDRs: [{native: 'fd00::/64', seenAs: 'fd80::/64'}, {native: 10.0.0.0/16}]")
	var endpoints []string
	for i := range 1000 {
		endpoints = append(endpoints, fmt.Sprintf("{origin: {clusterID: home, addresses: ['fd00::1:%x', 'fd00::2:%x']}, conditions: {ready: true}, hostname: pod-%d, zone: z}", i, i, i))
	}
	s.make(twin(t, "home", "large", "full", "addressType: IPv6, endpoints: ["+strings.Join(endpoints, ", ")+"]"))
	s.make(twin(t, "home", "large", "v4", ipv4(its))) // the same Service, dual-stack
	s.make(twin(t, "home", "large", "ports", "addressType: IPv4, ports: [{name: a, port: 80}, {name: a, port: 81}], endpoints: ["+its+"]"))
	s.becomes("large", "v4", "10.0.0.5")
	eventually(t, func() error {
		return all(s.hasEvent("large", "ports", "NotTaken", "Duplicate"), r.metric("isthmus_received_endpoints", "direct", 1001))
	})
	full := s.slice("large", "full")
	if last := full.Endpoints[999]; last.Addresses[0] != "fd80::1:3e7" || last.Addresses[1] != "fd80::2:3e7" || *last.Hostname != "pod-999" || *last.Zone != "z" || !*last.Conditions.Ready {
		t.Errorf("the last endpoint is %+v", last)
	}
	if s.slice("large", "ports") != nil {
		t.Error("an invalid slice was written")
	}
}

// A link's change with a thousand slices is one write a slice that really changes; a flap shorter than the settle time is none;
// and neither is a restart. What went while nothing ran is gone afterwards.
func TestE5_OneWriteASliceThatChanges(t *testing.T) {
	const slicesThere, ofOne = 1000, 300
	s := newSide(t)
	s.clean()
	s.namespace("many", "home")
	s.link("home", toHome)
	s.link("one", toOne)
	var making sync.WaitGroup
	for worker := range 16 {
		making.Go(func() {
			for i := worker; i < slicesThere; i += 16 {
				endpoint := its
				if i < ofOne {
					endpoint = both
				}
				if err := s.Create(t.Context(), twin(t, "home", "many", fmt.Sprintf("web-%d", i), ipv4(endpoint))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	making.Wait()
	r := s.receive(20 * time.Millisecond)
	holding := func(name, want string, count int) error {
		list := &discoveryv1.EndpointSliceList{}
		if err := s.List(t.Context(), list, client.InNamespace("many")); err != nil {
			return err
		}
		n := 0
		for _, o := range list.Items {
			if len(o.Endpoints) == 1 && o.Endpoints[0].Addresses[0] == want {
				n++
			}
		}
		if n != count {
			return fmt.Errorf("%s: %d slices hold %s, expected %d", name, n, want, count)
		}
		return nil
	}
	eventually(t, func() error {
		return all(holding("at first", "10.82.0.5", ofOne), holding("at first", "10.80.0.5", slicesThere-ofOne))
	})
	ofSlices := func(since time.Time) (out []string) {
		return slices.DeleteFunc(s.writes(since), func(w string) bool { return !strings.Contains(w, " endpointslices ") })
	}
	if writes := ofSlices(r.began); len(writes) != slicesThere {
		t.Errorf("%d writes for %d slices: %v", len(writes), slicesThere, writes[:min(len(writes), 5)])
	}
	changed := time.Now()
	s.connect("one", false)
	eventually(t, func() error { return holding("with the link down", "10.81.0.5", ofOne) })
	t.Logf("%d of %d slices were changed over in %s", ofOne, slicesThere, time.Since(changed).Round(time.Millisecond))
	if writes := ofSlices(changed); len(writes) != ofOne {
		t.Errorf("%d writes for %d slices: %v", len(writes), ofOne, writes[:min(len(writes), 5)])
	}
	r.stop()

	if err := s.Delete(t.Context(), &v1alpha1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "many", Name: "web-7"}}); err != nil {
		t.Fatal(err)
	}
	r = s.receive(time.Hour)
	eventually(t, func() error { // that it was not there before is known now, so everything was looked at
		if s.slice("many", "web-7") != nil {
			return fmt.Errorf("the slice whose source went is still there")
		}
		return r.metric("isthmus_received_slices", "in_step", slicesThere-1)
	})
	noticed := func(flag string) { // when a link that came later is told to be in use, what was before it is known
		t.Helper()
		s.link(flag, "")
		eventually(t, func() error { return s.condition(flag, "Accepted", metav1.ConditionTrue, "Accepted", "") })
	}
	s.connect("one", true) // a flap
	noticed("flag-up")
	s.connect("one", false)
	noticed("flag-down")
	s.make(twin(t, "home", "many", "more", ipv4(both)))
	s.becomes("many", "more", "10.81.0.5")
	if writes := ofSlices(r.began); len(writes) != 2 {
		t.Errorf("a restart and a flap wrote %v, expected a delete and a create", writes)
	}
}

// The probe finds out whether a link is up; without it, what it found is taken back.
func TestE5_ProbedLinks(t *testing.T) {
	s := newSide(t)
	s.clean()
	s.receive(50 * time.Millisecond)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	address := listener.Addr().String()
	s.namespace("probe", "home")
	s.link("home", toHome)
	s.make(twin(t, "home", "probe", "web", ipv4(both)))
	s.link("one", toOne+fmt.Sprintf(", probe: {tcp: '%s', periodSeconds: 1}", address))
	eventually(t, func() error { return s.condition("one", "Connected", metav1.ConditionTrue, "ProbeSucceeded", address) })
	s.becomes("probe", "web", "10.82.0.5")
	_ = listener.Close()
	eventually(t, func() error {
		return s.condition("one", "Connected", metav1.ConditionFalse, "ProbeFailed", "2 probes in a row")
	})
	s.becomes("probe", "web", "10.81.0.5")
	if err := s.Patch(context.Background(), &v1alpha1.ClusterLink{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"probe": null}}`))); err != nil {
		t.Fatal(err)
	}
	s.becomes("probe", "web", "10.82.0.5")
}
