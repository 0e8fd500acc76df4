// Package remotecluster keeps a connection to each RemoteCluster, and tells in its conditions how that is.
//
// Each remote has a link of its own, which alone talks to it (internal/controller/link). The reconciler only puts together
// what links have found out (judge.go, pure) and writes it, so that a remote that hangs holds up no other.
package remotecluster
