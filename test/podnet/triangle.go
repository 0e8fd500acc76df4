package podnet

import (
	"net/netip"

	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// Triangle is a plan of a consumer and two providers, each linked to the others. All three have one and the same pod network,
// so each sees the others' as something else, and the providers see the consumer's external network as something else too:
//
//	who sees whom    consumer       one            two            the consumer's external network
//	consumer         10.10.0.0/16   10.71.0.0/16   10.72.0.0/16   10.90.0.0/15: one's pods at 10.90.0.0/16, two's at 10.91.0.0/16
//	one              10.73.0.0/16   10.10.0.0/16   10.75.0.0/16   10.92.0.0/15
//	two              10.74.0.0/16   10.76.0.0/16   10.10.0.0/16   10.94.0.0/15
//
// and alike in IPv6: fd10::/64, fd71::/64, …, fd90::/48 with fd90:0:0:90::/64, ….
func Triangle(consumer, one, two string) Plan {
	pods := func(as string) []v1alpha1.CIDRMapping {
		return []v1alpha1.CIDRMapping{{Native: "10.10.0.0/16", SeenAs: "10." + as + ".0.0/16"}, {Native: "fd10::/64", SeenAs: "fd" + as + "::/64"}}
	}
	external := func(as string) []v1alpha1.CIDRMapping {
		return []v1alpha1.CIDRMapping{{Native: "10.90.0.0/15", SeenAs: "10." + as + ".0.0/15"}, {Native: "fd90::/48", SeenAs: "fd" + as + "::/48"}}
	}
	transit := func(seen, at string) []v1alpha1.TransitMapping {
		return []v1alpha1.TransitMapping{
			{From: "10." + seen + ".0.0/16", External: "10." + at + ".0.0/16"}, {From: "fd" + seen + "::/64", External: "fd90:0:0:" + at + "::/64"},
		}
	}
	own := []netip.Prefix{netip.MustParsePrefix("10.10.0.0/16"), netip.MustParsePrefix("fd10::/64")}
	return Plan{
		Pods: map[string][]netip.Prefix{consumer: own, one: own, two: own},
		Links: map[string]map[string]v1alpha1.ClusterLinkSpec{
			consumer: {one: {PodCIDRs: pods("71"), Transit: transit("71", "90")}, two: {PodCIDRs: pods("72"), Transit: transit("72", "91")}},
			one:      {consumer: {PodCIDRs: pods("73"), ExternalCIDRs: external("92")}, two: {PodCIDRs: pods("75")}},
			two:      {consumer: {PodCIDRs: pods("74"), ExternalCIDRs: external("94")}, one: {PodCIDRs: pods("76")}},
		},
	}
}

// Manifests returns the ClusterLinks of a cluster, as YAML.
func (p Plan) Manifests(cluster string) (all []byte, err error) {
	for other, spec := range p.Links[cluster] {
		one, err := yaml.Marshal(map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ClusterLink", "metadata": map[string]string{"name": other}, "spec": spec,
		})
		if err != nil {
			return nil, err
		}
		all = append(append(all, "---\n"...), one...)
	}
	return all, nil
}
