package config

import "reflect"

// LaterField is a key that other versions of the format know and this one does not.
type LaterField struct {
	Name string
	// Reason says what there is instead, or what to do.
	Reason string
}

// laterFields lists, by object, the keys that are refused with a reason rather than as unknown. A key moves from here
// to its struct when its feature comes.
var laterFields = map[reflect.Type][]LaterField{
	reflect.TypeFor[File](): {
		{"naming", "twins keep their names, and their namespaces follow `namespaces`"},
		{"virtualCluster", "twins keep their names, and their namespaces follow `namespaces`"},
		{"disable_event_filtering", "events that change nothing of what crosses are always left out"},
		{"hostNamespace", "map each namespace with `namespaces` instead"},
		{"targetNamespace", "only direction `toHost` is supported"},
		{"enforceTenantProject", "set the project in the source, or own it on the remote side with `hostOwnedFields`"},
	},
	reflect.TypeFor[SyncResource](): {
		{"naming", "twins keep their names, and their namespaces follow `namespaces`"},
		{"targetNamespace", "only direction `toHost` is supported"},
		{"hostNamespace", "map each namespace with `namespaces` instead"},
		{"patches", "references cross as they are written; give their targets the same names on the remote side"},
		{"selectorIncludeOwnerLabels", "label selectors inside objects cross as they are written"},
		{"enforceTenantProject", "set the project in the source, or own it on the remote side with `hostOwnedFields`"},
		{"virtualControlledBy", "only direction `toHost` is supported"},
		{"specOwnership", "fields that others add to a twin stay"},
		{"deletionPolicy", "a deleted source goes at once, and its twin after it"},
		{"carryFinalizers", "finalizers do not cross"},
		{"includeForeignCopies", "what another system stamped as its copy does not cross"},
		{"clusterScoped", "only namespaced kinds cross"},
	},
}

// LaterFields returns the keys of an object that this version does not support yet.
func LaterFields(t reflect.Type) []LaterField { return laterFields[t] }

func laterField(t reflect.Type, name string) (LaterField, bool) {
	for _, f := range laterFields[t] {
		if f.Name == name {
			return f, true
		}
	}
	return LaterField{}, false
}
