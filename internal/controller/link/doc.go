// Package link keeps connections to clusters that objects of the local one name.
//
// Each cluster has a goroutine of its own, a [Link], which follows the Secret or the ClusterProfile that says how the cluster
// is reached ([Origin]), and asks the cluster who it is ([Probe]); so one that hangs holds up no other. What became of that is
// read at any time ([State]): a cluster that is not reached is a normal state, and no error.
package link
