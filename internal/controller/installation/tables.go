package installation

import "k8s.io/apimachinery/pkg/runtime/schema"

// ownsPods are the kinds that stay, when they are deleted, until their pods are gone.
var ownsPods = map[schema.GroupKind]bool{
	{Group: "apps", Kind: "Deployment"}: true, {Group: "apps", Kind: "StatefulSet"}: true, {Group: "apps", Kind: "DaemonSet"}: true,
	{Group: "apps", Kind: "ReplicaSet"}: true, {Group: "batch", Kind: "Job"}: true, {Group: "batch", Kind: "CronJob"}: true,
}
