// Package cluster reaches one Kubernetes cluster: its configuration and how that is followed when it changes, what the
// cluster serves, what it declares of a kind, and whether it can be reached at all.
//
// A Cluster is never "connected" or "broken": every request is tried, its outcome is remembered as Health, and a rotated
// credential or a moved server is picked up from the kubeconfig without a restart. "Not reachable" is a normal state.
package cluster
