package boundary

import (
	"slices"
	"strings"
)

// builtinGroups are the dotted API groups that the API server serves itself.
var builtinGroups = []string{
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
	"authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
	"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io",
	"rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
}

// BuiltinGroup reports whether the kinds of an API group come with the API server, and so not from a CRD.
func BuiltinGroup(group string) bool {
	return !strings.Contains(group, ".") || slices.Contains(builtinGroups, group)
}
