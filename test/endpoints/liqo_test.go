//go:build unix

package endpoints

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

// What Liqo keeps: its module, and the definitions of what it says of networks.
const (
	liqoModule     = "github.com/liqotech/liqo@v1.0.1"
	liqoCRDs       = "deployments/liqo/charts/liqo-crds/crds/"
	configurations = "configurations.v1beta1.networking.liqo.io"
	connections    = "connections.v1beta1.networking.liqo.io"
	ips            = "ips.v1alpha1.ipam.liqo.io"
)

// liqo plays the controllers of Liqo on a cluster.
type liqo struct{ *harness.Member }

func (l liqo) install(t *testing.T) {
	for _, file := range []string{"networking.liqo.io_configurations.yaml", "networking.liqo.io_connections.yaml", "ipam.liqo.io_ips.yaml"} {
		l.Apply(harness.ModuleFile(t, liqoModule, liqoCRDs+file))
	}
}

// knows is a Configuration about another cluster, as Liqo makes it: not settled yet.
func (l liqo) knows(cluster, pods, external string) {
	l.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: liqo-tenant-" + cluster + "}}")
	l.Apply(fmt.Sprintf(`{apiVersion: networking.liqo.io/v1beta1, kind: Configuration, metadata: {name: %[1]s, namespace: liqo-tenant-%[1]s, labels: {liqo.io/remote-cluster-id: %[1]s}},
		spec: {local: {cidr: {pod: [10.0.0.0/16], external: [10.61.0.0/16]}}, remote: {cidr: {pod: [%[2]s], external: [%[3]s]}}}}`, cluster, pods, external))
}

// sees settles how the other cluster is seen.
func (l liqo) sees(cluster, pods, external string) {
	l.SetStatus(configurations, "liqo-tenant-"+cluster, cluster, fmt.Sprintf("{remote: {cidr: {pod: [%s], external: [%s]}}}", pods, external))
}

// connects is the Connection to another cluster, as Liqo's gateway says it is.
func (l liqo) connects(cluster, value string) {
	l.Apply(fmt.Sprintf(`{apiVersion: networking.liqo.io/v1beta1, kind: Connection, metadata: {name: %[1]s, namespace: liqo-tenant-%[1]s, labels: {liqo.io/remote-cluster-id: %[1]s}},
		spec: {type: Client, gatewayRef: {apiVersion: networking.liqo.io/v1beta1, kind: WgGatewayClient, name: %[1]s, namespace: liqo-tenant-%[1]s}}}`, cluster))
	l.SetStatus(connections, "liqo-tenant-"+cluster, cluster, "{value: "+value+"}")
}

// leads is an IP, as Liqo makes one for a pod that others reach through this cluster.
func (l liqo) leads(name, to, external string) {
	l.Apply(fmt.Sprintf("{apiVersion: ipam.liqo.io/v1alpha1, kind: IP, metadata: {name: %s, namespace: default}, spec: {ip: %s}}", name, to))
	l.SetStatus(ips, "default", name, "{ip: "+external+", cidr: 10.61.0.0/16}")
}

// Where Liqo makes the network, its Configurations, Connections and IPs say what ClusterLinks say elsewhere, whenever they come.
func TestE2E5_LiqoSaysHowClustersAreLinked(t *testing.T) {
	f := harness.NewFleet(t, "west", "east")
	west, east := liqo{f.Member("west")}, liqo{f.Member("east")}
	for _, l := range []liqo{west, east} {
		l.UseEndpoints()
		l.UseLiqoNetworks()
	}
	east.Consent(access...)
	east.Admit("west", "'*'", access...)
	west.Reach(east.Member, "")
	west.Cross(crossServices("All"))
	west.Apply(node("own", ""))
	west.Apply(node("on-north", "liqo.io/remote-cluster-id: north"))
	west.Reflect()
	p := east.Receive()
	west.Offload("shop", "")
	west.Create(service("shop", "web", "liqo.io/use-direct-connections: 'true'"))
	west.Create(slice("shop", "web-1", "web", "{addresses: [10.0.0.5], nodeName: own}", "{addresses: [10.71.0.7], nodeName: on-north}"))
	const home = "shop-west"
	leads := func(addresses ...string) {
		t.Helper()
		f.Eventually(func() error { return reaches(east.Member, home, "web", addresses...) })
	}

	// Liqo is installed later, and so is each of its objects.
	west.install(t)
	east.install(t)
	east.knows("west", "10.0.0.0/16", "10.61.0.0/16")
	east.sees("west", "10.81.0.0/16", "10.91.0.0/16")
	east.connects("west", "Connected")
	leads("10.81.0.5")
	west.knows("north", "10.0.0.0/16", "10.61.0.0/16")
	west.sees("north", "10.71.0.0/16", "10.65.0.0/16")
	west.connects("north", "Connected")
	west.leads("web-north", "10.71.0.7", "10.61.0.9")
	leads("10.81.0.5", "10.91.0.9")

	// The link between the providers is used when its networks are settled and there is a Connection that is up.
	east.knows("north", "10.0.0.0/16", "10.61.0.0/16")
	east.sees("north", "10.82.0.0/16", "10.92.0.0/16")
	east.connects("north", "Connecting")
	west.Create(slice("shop", "web-2", "web", "{addresses: [10.0.0.6], nodeName: own}")) // by which it is seen that all was taken in
	leads("10.81.0.5", "10.81.0.6", "10.91.0.9")
	east.connects("north", "Connected")
	leads("10.81.0.5", "10.81.0.6", "10.82.0.7")
	east.sees("north", "10.83.0.0/16", "10.92.0.0/16")
	leads("10.81.0.5", "10.81.0.6", "10.83.0.7")
	east.connects("north", "Error")
	leads("10.81.0.5", "10.81.0.6", "10.91.0.9")
	west.Delete(ips, "default", "web-north")
	west.leads("web-north-again", "10.71.0.7", "10.61.0.10")
	leads("10.81.0.5", "10.81.0.6", "10.91.0.10")

	// A ClusterLink of the name wins; networks that overlap are said to.
	east.connects("north", "Connected")
	leads("10.81.0.5", "10.81.0.6", "10.83.0.7")
	east.Apply(link("north", northSeenByEast+", directConnections: Deny"))
	leads("10.81.0.5", "10.81.0.6", "10.91.0.10")
	east.Delete(links, "", "north")
	leads("10.81.0.5", "10.81.0.6", "10.83.0.7")
	east.sees("north", "10.81.0.0/16", "10.92.0.0/16")
	leads("10.81.0.5", "10.81.0.6", "10.91.0.10")
	f.Eventually(func() error {
		if log := p.Log(); !strings.Contains(log, "A link that was found is not used") || !strings.Contains(log, "overlaps") {
			return errors.New("nothing is said of a link that is not used")
		}
		return nil
	})
	east.sees("north", "10.83.0.0/16", "10.92.0.0/16")
	leads("10.81.0.5", "10.81.0.6", "10.83.0.7")
	east.Delete(configurations, "liqo-tenant-north", "north")
	leads("10.81.0.5", "10.81.0.6", "10.91.0.10")
	rests(t, f, west.Member, east.Member)
}
