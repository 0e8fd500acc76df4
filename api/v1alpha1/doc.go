// Package v1alpha1 holds the objects by which an Isthmus in controller mode is told what to carry where, and on a
// provider whom to let in.
//
// +kubebuilder:object:generate=true
// +groupName=isthmus.dev
package v1alpha1

//go:generate go tool controller-gen object paths=.
//go:generate go tool controller-gen crd paths=. output:crd:dir=../../config/crd
