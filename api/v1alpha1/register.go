package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of everything here.
var GroupVersion = schema.GroupVersion{Group: "isthmus.dev", Version: "v1alpha1"}

// AddToScheme makes the types known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&RemoteCluster{}, &RemoteClusterList{},
		&NamespaceOffloading{}, &NamespaceOffloadingList{},
		&Crossing{}, &CrossingList{},
		&Consumer{}, &ConsumerList{},
		&NamespaceRequest{}, &NamespaceRequestList{},
		&Installation{}, &InstallationList{},
		&ClusterLink{}, &ClusterLinkList{},
		&ShadowEndpointSlice{}, &ShadowEndpointSliceList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
