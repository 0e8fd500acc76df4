package liqo

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func objects(t *testing.T, texts ...string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, text := range texts {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
	return all
}

// Of what Liqo says, what makes sense is used, and the rest is told, whatever else there is.
func TestE5_LinksThatLiqoSays(t *testing.T) {
	links, faults := ReadLinks(objects(t,
		// Host bits beyond the prefix do not count, and of several networks Liqo may remap the first alone.
		`{metadata: {name: one, namespace: a, labels: {liqo.io/remote-cluster-id: one}}, spec: {remote: {cidr: {pod: [10.0.0.1/16, 10.1.0.0/16], external: [10.60.0.0/16]}}},
			status: {remote: {cidr: {pod: [10.71.0.0/16], external: [10.61.0.0/16]}}}}`,
		`{metadata: {name: unsettled, namespace: a, labels: {liqo.io/remote-cluster-id: unsettled}}, spec: {remote: {cidr: {pod: [10.0.0.0/16]}}}}`,
		`{metadata: {name: bad, namespace: a, labels: {liqo.io/remote-cluster-id: bad}}, spec: {remote: {cidr: {pod: [ten]}}}, status: {remote: {cidr: {pod: [10.72.0.0/16]}}}}`,
		`{metadata: {name: again, namespace: a, labels: {liqo.io/remote-cluster-id: one}}}`,
		`{metadata: {name: nobody, namespace: a}}`,
		`{metadata: {name: down, namespace: a, labels: {liqo.io/remote-cluster-id: down}}, spec: {remote: {cidr: {pod: [10.0.0.0/16]}}}, status: {remote: {cidr: {pod: [10.73.0.0/16]}}}}`,
	), objects(t,
		`{metadata: {labels: {liqo.io/remote-cluster-id: one}}, status: {value: Error}}`, `{metadata: {labels: {liqo.io/remote-cluster-id: one}}, status: {value: Connected}}`,
		`{metadata: {labels: {liqo.io/remote-cluster-id: down}}, status: {value: Connecting}}`,
	), objects(t,
		`{spec: {ip: 10.71.0.7}, status: {ip: 10.61.0.9}}`, `{spec: {ip: 10.71.0.8}}`, `{spec: {ip: 10.99.0.1}, status: {ip: 10.61.0.10}}`,
	))
	if len(links) != 2 || links[0].Link.Name != "one" || links[1].Link.Name != "down" {
		t.Fatalf("links: %+v", links)
	}
	one, err := links[0].Parse()
	if err != nil || !one.Up {
		t.Fatalf("%+v, %v", one, err)
	}
	addr := netip.MustParseAddr
	if seen, ok := one.Seen(addr("10.0.3.4")); !ok || seen != addr("10.71.3.4") {
		t.Errorf("10.0.3.4 is seen as %s", seen)
	}
	if _, ok := one.Seen(addr("10.1.0.4")); ok {
		t.Error("a network is seen that Liqo did not remap")
	}
	if external, ok := one.Transit(addr("10.71.0.7")); !ok || external != addr("10.61.0.9") {
		t.Errorf("10.71.0.7 is reached at %s", external)
	}
	if _, ok := one.Transit(addr("10.71.0.8")); ok {
		t.Error("an address is reached that Liqo has not got to")
	}
	if down, err := links[1].Parse(); err != nil || down.Up {
		t.Errorf("a link without a Connection that is up is %+v, %v", down, err)
	}
	message := errors.Join(faults...).Error()
	for _, part := range []string{`a/bad of Liqo: spec.remote.cidr.pod[0] "ten"`, "a/again of Liqo is about cluster one, as is", "a/nobody of Liqo: label liqo.io/remote-cluster-id"} {
		if !strings.Contains(message, part) || len(faults) != 3 {
			t.Errorf("the faults are %s; expected three, with %s", message, part)
		}
	}
}
