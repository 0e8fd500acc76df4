// Package controlplane runs real Kubernetes control planes as local processes:
// etcd and kube-apiserver, on demand kube-controller-manager, kube-scheduler
// and kwok. The demo, the tests and the benchmarks use it.
//
// The components are compiled from the module in the folder controlplane/ of
// this repository, once, and kept in the user's cache directory ([Build]).
// [Start] gives a [Cluster] on free loopback ports, which can be killed, paused,
// restarted and replaced, and whose audit log is complete: an entry is written
// before the response ends, so [Cluster.Audit] right after a request has it.
//
// Without [ControllerManager] namespaces never finish terminating, owner
// references are not followed and namespaces get no default ServiceAccount
// (so pods are refused). Without [Scheduler] and [Kwok] pods stay Pending.
//
// A cluster listens on 127.0.0.1 only. Its etcd asks nobody who they are, so
// other users of the machine can read it: nothing secret belongs there.
//
// Every process ends with the process that started it, also when that one is
// killed.
package controlplane

// Component is one program of a control plane.
type Component string

// The programs that [Build] can build. [Kubectl] is not a part of a cluster.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Kwok              Component = "kwok"
	Kubectl           Component = "kubectl"
)

// KubernetesVersion is the version of all Kubernetes components.
const KubernetesVersion = "v1.37.2"

// All lists every component that can be built.
func All() []Component {
	return []Component{Etcd, APIServer, Kubectl, ControllerManager, Scheduler, Kwok}
}
