// Package vcluster is Isthmus as a plugin of vCluster: the protocol that vCluster speaks with its plugins, and a run of
// the engine between a virtual cluster and its host.
package vcluster

//go:generate go run ./gen
