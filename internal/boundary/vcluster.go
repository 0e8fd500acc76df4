package boundary

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The keys that vCluster writes on a virtual cluster's objects in the host cluster (P1).
const (
	vclusterPrefix = "vcluster.loft.sh/"

	LabelVClusterManagedBy    = vclusterPrefix + "managed-by"
	LabelVClusterNamespace    = vclusterPrefix + "namespace"
	LabelVClusterControlledBy = vclusterPrefix + "controlled-by"

	AnnotationVClusterName          = vclusterPrefix + "object-name"
	AnnotationVClusterNamespace     = vclusterPrefix + "object-namespace"
	AnnotationVClusterUID           = vclusterPrefix + "object-uid"
	AnnotationVClusterKind          = vclusterPrefix + "object-kind"
	AnnotationVClusterHostName      = vclusterPrefix + "object-host-name"
	AnnotationVClusterHostNamespace = vclusterPrefix + "object-host-namespace"
)

// controlledBy is the value of LabelVClusterControlledBy on our twins: vCluster's own syncers leave an object alone
// that another controls.
const controlledBy = "isthmus"

// translatedLabelKeys are the label keys that have another name in the host cluster: they mean something there.
var translatedLabelKeys = []string{
	"release", LabelVClusterNamespace, LabelVClusterManagedBy, LabelVClusterControlledBy,
}

// carriedForPods are the core kinds of which vCluster itself carries only the objects that a pod uses, and those that are
// annotated forceSync.
var carriedForPods = []string{"Secret", "ConfigMap"}

const forceSync = vclusterPrefix + "force-sync"

// maxName is the length up to which vCluster leaves a name as it is, also for kinds that may have longer ones.
const maxName = 63

// VirtualCluster is the identity that vCluster's naming scheme is made from (N3).
type VirtualCluster struct {
	// Name is the virtual cluster's own name, HostNamespace the host namespace in which it runs.
	Name, HostNamespace string
}

// HostName returns vCluster's own name in the host namespace for an object of a virtual namespace, byte for byte; an
// empty name stays empty.
//
// The scheme is ambiguous by design: a-x-b in the namespace c, and a in the namespace b-x-c, have one name. No name is
// ever parsed back (N2), and of two sources that meet in one place the second is refused, which the stamp tells (N1).
func (v VirtualCluster) HostName(namespace, name string) string {
	if name == "" {
		return ""
	}
	return shorten(v.longName(namespace, name))
}

// HostNameCluster returns vCluster's own name in the host cluster for a cluster-scoped object; an empty name stays empty.
func (v VirtualCluster) HostNameCluster(name string) string {
	if name == "" {
		return ""
	}
	return shorten("vcluster-" + name + "-x-" + v.hostID())
}

// SharedName returns the name in a host namespace that several virtual clusters share. It ends in a hash over
// everything that tells objects apart, each with its length, so names that are put together alike differ all the same.
// An empty name stays empty.
func (v VirtualCluster) SharedName(namespace, name string) string {
	if name == "" {
		return ""
	}
	return cutTo(v.longName(namespace, name), v.identity(name, namespace))
}

// identity is a text that no other virtual cluster of the host has, together with parts.
func (v VirtualCluster) identity(parts ...string) string {
	var identity strings.Builder
	for _, part := range append(parts, v.Name, v.HostNamespace) {
		identity.WriteString(strconv.Itoa(len(part)) + ":" + part)
	}
	return identity.String()
}

// Marker returns the value of LabelVClusterManagedBy on the virtual cluster's namespaced objects.
func (v VirtualCluster) Marker() string { return v.Name }

// MarkerCluster returns the value of LabelVClusterManagedBy on the virtual cluster's cluster-scoped objects.
func (v VirtualCluster) MarkerCluster() string { return shorten(v.hostID()) }

// MarkerShared returns the value of LabelVClusterManagedBy in a host namespace that several virtual clusters share,
// where their names do not tell them apart.
func (v VirtualCluster) MarkerShared() string { return v.HostNamespace }

// ClusterID returns a cluster ID for the virtual cluster that no other of the same host has: its name, and a hash over its
// name and its host namespace.
func (v VirtualCluster) ClusterID() string {
	return cutTo(v.Name, v.identity())
}

// LabelKey returns the key that a label has in the host cluster: another one for those that mean something there.
func (v VirtualCluster) LabelKey(key string) string {
	if !contains(translatedLabelKeys, key) {
		return key
	}
	return shorten(vclusterPrefix + "label-" + v.Name + "-x-" + hash10(key))
}

// Labels returns the labels of a twin: the source's, with the keys that they have in the host cluster, and vCluster's
// own. namespace is the source's; empty: a cluster-scoped object. A source's label under a key that stands for a
// translated one is left out, as vCluster does.
func (v VirtualCluster) Labels(source map[string]string, namespace string) map[string]string {
	return v.labels(source, v.membership(namespace, ""))
}

// SharedLabels is Labels for a twin in a host namespace that several virtual clusters share.
func (v VirtualCluster) SharedLabels(source map[string]string, namespace string) map[string]string {
	return v.labels(source, v.membership(namespace, v.MarkerShared()))
}

func (v VirtualCluster) labels(source, membership map[string]string) map[string]string {
	out := make(map[string]string, len(source)+len(membership)+1)
	for key, value := range source {
		out[key] = value
	}
	for _, key := range translatedLabelKeys {
		delete(out, key)
		delete(out, v.LabelKey(key))
	}
	for _, key := range translatedLabelKeys {
		if value, ok := source[key]; ok {
			out[v.LabelKey(key)] = value
		}
	}
	maps.Copy(out, membership)
	out[LabelVClusterControlledBy] = controlledBy
	return out
}

// membership returns the labels by which the objects of a virtual namespace, or the cluster-scoped ones, are told from
// all others in the host cluster. An empty marker stands for the one of the virtual cluster's own host namespace.
func (v VirtualCluster) membership(namespace, marker string) map[string]string {
	switch {
	case namespace == "":
		return map[string]string{LabelVClusterManagedBy: v.MarkerCluster()}
	case marker == "":
		marker = v.Marker()
	}
	return map[string]string{LabelVClusterManagedBy: marker, LabelVClusterNamespace: namespace}
}

// Annotations returns vCluster's own annotations on the twin of a source. kind is the source's kind, host where the
// twin is; an empty namespace is left out.
func (v VirtualCluster) Annotations(kind schema.GroupVersionKind, source types.NamespacedName, uid types.UID, host types.NamespacedName) map[string]string {
	out := map[string]string{
		AnnotationVClusterName:     source.Name,
		AnnotationVClusterUID:      string(uid),
		AnnotationVClusterKind:     kind.String(),
		AnnotationVClusterHostName: host.Name,
	}
	if source.Namespace != "" {
		out[AnnotationVClusterNamespace] = source.Namespace
	}
	if host.Namespace != "" {
		out[AnnotationVClusterHostNamespace] = host.Namespace
	}
	return out
}

// hostID names the virtual cluster among all of the host cluster, before it is shortened.
func (v VirtualCluster) hostID() string { return v.HostNamespace + "-x-" + v.Name }

func (v VirtualCluster) longName(namespace, name string) string {
	return name + "-x-" + namespace + "-x-" + v.Name
}

// shorten is vCluster's shortening of what is too long for a label, byte for byte. It takes label keys as a whole, with
// their prefix, and names of kinds that may be longer.
func shorten(text string) string {
	if len(text) <= maxName {
		return text
	}
	return cutTo(text, text)
}

// cutTo returns the beginning of a text and the hash of another, at most maxName together. A cut right after a dot would
// leave a name that no server takes.
func cutTo(text, hashed string) string {
	const hashLength = 10
	kept := text[:min(len(text), maxName-1-hashLength)]
	return strings.ReplaceAll(kept+"-"+hash10(hashed), ".-", "-")
}

// DefaultCounterpart is what a namespace is called on other clusters unless somebody says otherwise: its name, a hyphen, and
// the ID of its cluster, shortened with a hash of the whole where that is too long (N1).
func DefaultCounterpart(namespace, cluster string) string {
	name := namespace + "-" + cluster
	if len(name) <= maxName {
		return name
	}
	return cutTo(name, namespace+"/"+cluster)
}

// hash10 returns the first ten hex digits of a text's SHA-256.
func hash10(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:5])
}
