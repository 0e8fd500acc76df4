package fleet

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/engine"
	"isthmus.dev/isthmus/internal/flow"
)

// sides tell of the clusters what Compile has to know.
type sides struct {
	// kind tells how the local cluster and a remote serve a resource.
	kind func(remote *cluster.Cluster, resource schema.GroupVersionResource) Kind
	// carried is Input.Carried.
	carried func(crossing, remote string) bool
}

// workOut works out what a fleet carries. clusters are the remotes that may be used.
func (o *Options) workOut(crossings []v1alpha1.Crossing, pairs []Pair, members []Member, s sides) (clusters map[string]*cluster.Cluster, out Output) {
	clusters = map[string]*cluster.Cluster{}
	in := Input{Crossings: crossings, Pairs: pairs, MassDeletion: o.MassDeletion, Endpoints: o.Endpoints, Carried: s.carried}
	for _, m := range members {
		in.Remotes = append(in.Remotes, m.Remote)
		if !m.Barred {
			clusters[m.Name] = m.Cluster
		}
	}
	in.Kind = func(remote string, resource schema.GroupVersionResource) Kind {
		if clusters[remote] == nil {
			return Kind{LocalErr: errNotAsked, RemoteErr: errNotAsked, LocalStatus: true, RemoteStatus: true}
		}
		return s.kind(clusters[remote], resource)
	}
	return clusters, Compile(in)
}

// engineOptions are those of a remote's engine, but for whom it tells.
func (o *Options) engineOptions(m Member, conf *config.Config, siblings *flow.Siblings) engine.Options {
	return engine.Options{
		Config: conf, ClusterID: o.ClusterID, RemoteID: m.Name, Instance: o.Instance,
		Namespace: o.Namespace, LedgerName: LedgerName(o.Instance, m.Name),
		Local: o.Local, Remote: m.Cluster, Siblings: siblings,
	}
}
