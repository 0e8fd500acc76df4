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
	reflect.TypeFor[SyncResource](): {},
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
