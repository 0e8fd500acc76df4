// Package access turns what other people write about a cluster into how it is reached: a kubeconfig in a Secret, or a
// ClusterProfile together with the file in which the operator says which plugins may be run for one.
//
// It is pure but for [ProviderFile], which reads that file. Nothing that an error says quotes a value of a Secret (F4).
package access
