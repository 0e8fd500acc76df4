// Package remotecluster keeps a connection to each RemoteCluster, and tells in its conditions how that is.
//
// Each remote has a goroutine of its own, a [link], which alone talks to it: it follows the Secret or the ClusterProfile
// that says how the remote is reached, and asks it who it is. The reconciler only puts together what links have found out
// (judge.go, pure) and writes it, so that a remote that hangs holds up no other.
package remotecluster
