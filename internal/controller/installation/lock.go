package installation

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/install"
)

// What is in a lock.
const (
	lockInventory = "inventory" // what is, or may be, there of the holder
	lockRan       = "ran"       // what ran to completion, and with which content
	lockFormer    = "former"    // what a holder that was released has left, if anything
)

// holding says how a lock stands to an Installation.
type holding string

const (
	lockFree    holding = "free"
	lockOurs    holding = "ours"
	lockOthers  holding = "another's"
	lockLetGo   holding = "released" // another's, whom somebody declared dead
	lockGivenUp holding = "given up" // ours, but somebody declared us dead
)

// lock is what a component's lock on a cluster says.
type lock struct {
	object    *unstructured.Unstructured // nil: there is none
	holder    stamp
	inventory []v1alpha1.InventoryEntry
	ran       map[string]string
	former    string
	err       error // why it can't be read
}

// readLock reads a lock; object nil: there is none.
func readLock(object *unstructured.Unstructured) lock {
	l := lock{object: object, holder: stampOn(object), ran: map[string]string{}}
	if object == nil {
		return l
	}
	data, _, _ := unstructured.NestedStringMap(object.Object, "data")
	for key, into := range map[string]any{lockInventory: &l.inventory, lockRan: &l.ran} {
		if text := data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				l.err = fmt.Errorf("the lock, ConfigMap %s/%s, can't be read: data.%s: expected the JSON that isthmus wrote: %w", install.SystemNamespace, object.GetName(), key, err)
			}
		}
	}
	l.former = data[lockFormer]
	return l
}

// held says how the lock stands to an Installation.
func (l lock) held(by stamp) holding {
	switch released := l.released(); {
	case l.object == nil:
		return lockFree
	case l.holder == by && released:
		return lockGivenUp
	case l.holder == by:
		return lockOurs
	case released:
		return lockLetGo
	}
	return lockOthers
}

// of returns the inventory of an Installation that holds the lock. What another one has is not its to watch.
func (l lock) of(by stamp) []v1alpha1.InventoryEntry {
	if l.holder != by {
		return nil
	}
	return l.inventory
}

// released reports whether somebody declared its holder dead.
func (l lock) released() bool {
	return l.object != nil && l.object.GetAnnotations()[v1alpha1.ReleaseAnnotation] == "true"
}

// body returns the apply body of a lock that is held by an Installation: create-only where there is none, else for the one
// that was read. Of one that was another's, what that one has left is kept.
func (l lock) body(component, hub string, by stamp, inventory []v1alpha1.InventoryEntry, ran map[string]string) map[string]any {
	data := map[string]any{lockInventory: asJSON(inventory), lockRan: asJSON(ran)}
	former := l.former
	if l.object != nil && l.holder != by {
		former = asJSON(map[string]any{"holder": string(l.holder), "inventory": l.inventory})
	}
	if former != "" {
		data[lockFormer] = former
	}
	annotations := map[string]any{v1alpha1.InstallationAnnotation: string(by)}
	if l.released() { // which was for the former holder
		annotations[v1alpha1.ReleaseAnnotation] = "false"
	}
	body := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": install.LockName(component), "namespace": install.SystemNamespace,
			"labels":      map[string]any{v1alpha1.InstalledByLabel: hub},
			"annotations": annotations,
		},
		"data": data,
	}
	if l.object == nil {
		return boundary.CreateOnly(body)
	}
	return boundary.Bind(body, l.object)
}

// knows reports whether the lock has an inventory and a record of what ran already.
func (l lock) knows(inventory []v1alpha1.InventoryEntry, ran map[string]string) bool {
	return l.object != nil && asJSON(l.inventory) == asJSON(inventory) && maps.Equal(l.ran, ran)
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // plain structs and maps
		panic(err)
	}
	return string(text)
}
