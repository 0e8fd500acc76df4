//go:build unix

package endpoints

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/test/harness"
)

const (
	services = "services.v1."
	shadows  = "shadowendpointslices.v1alpha1.isthmus.dev"
	slicesOf = "endpointslices.discovery.k8s.io"
	links    = "clusterlinks.v1alpha1.isthmus.dev"
	allow    = "isthmus.dev/allow-reflection: 'true'"
)

// access is what providers allow: Services, and their endpoints.
var access = []v1alpha1.AllowedResources{
	{Resources: []string{"services"}, Access: v1alpha1.AccessWrite},
	{Group: "isthmus.dev", Resources: []string{"shadowendpointslices"}, Access: v1alpha1.AccessWrite},
}

func crossServices(policy string) string {
	return "{apiVersion: isthmus.dev/v1alpha1, kind: Crossing, metadata: {name: services}, spec: {resource: {version: v1, resource: services}, policy: " + policy + "}}"
}

// service is one without a selector, whose slices are written by hand.
func service(namespace, name, annotations string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {%s}}, spec: {ports: [{port: 80}]}}", name, namespace, annotations)
}

// slice is an EndpointSlice by hand, for IPv4.
func slice(namespace, name, service string, endpoints ...string) string {
	return fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %s, namespace: %s, labels: {kubernetes.io/service-name: %s}}, addressType: IPv4, ports: [{port: 8080}], endpoints: [%s]}",
		name, namespace, service, strings.Join(endpoints, ", "))
}

func node(name, labels string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s}}}", name, labels)
}

func link(name, spec string) string {
	return fmt.Sprintf("{apiVersion: isthmus.dev/v1alpha1, kind: ClusterLink, metadata: {name: %s}, spec: {%s}}", name, spec)
}

// reached returns the addresses that a Service has on a cluster by what was received for it, sorted; several of one endpoint
// are joined.
func reached(m *harness.Member, namespace, service string) (addresses []string) {
	for _, o := range m.List(slicesOf, namespace, "kubernetes.io/service-name="+service+",endpointslice.kubernetes.io/managed-by="+v1alpha1.EndpointsManager) {
		var s discoveryv1.EndpointSlice
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s); err != nil {
			return []string{err.Error()}
		}
		for _, e := range s.Endpoints {
			addresses = append(addresses, strings.Join(e.Addresses, "+"))
		}
	}
	slices.Sort(addresses)
	return addresses
}

// reaches says that a Service has other addresses on a cluster than expected.
func reaches(m *harness.Member, namespace, service string, want ...string) error {
	if got := reached(m, namespace, service); !slices.Equal(got, want) {
		return fmt.Errorf("%s/%s on %s is reached at %v, expected %v", namespace, service, m.Name(), got, want)
	}
	return nil
}

// sent returns what was made of a slice for a destination; nil: nothing.
func sent(m *harness.Member, namespace, slice, destination string) *v1alpha1.ShadowEndpointSlice {
	o := m.Get(shadows, namespace, slice+"."+destination)
	if o == nil {
		return nil
	}
	s := &v1alpha1.ShadowEndpointSlice{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, s); err != nil {
		panic(err)
	}
	return s
}

// origins returns the clusters and addresses that were sent of a slice as origins, sorted.
func origins(m *harness.Member, namespace, slice, destination string) (all []string) {
	if s := sent(m, namespace, slice, destination); s != nil {
		for _, e := range s.Spec.Endpoints {
			if e.Origin != nil {
				all = append(all, e.Origin.ClusterID+" "+strings.Join(e.Origin.Addresses, "+"))
			}
		}
	}
	slices.Sort(all)
	return all
}

func same(got []string, want ...string) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %v, expected %v", got, want)
	}
	return nil
}

func text(objects []unstructured.Unstructured) string {
	encoded, _ := json.Marshal(objects)
	return string(encoded)
}
