package flow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/store"
)

// fresh are the twins that were created while deletes were held: they are no reason to take these for few (F8).
type fresh struct {
	// making are those that are asked for and not answered yet: their events may come first.
	making map[pair]bool
	// made are those that were answered while deletes were held, by UID. An empty one stands for whatever is there: the
	// answer was lost.
	made map[pair]types.UID
}

// pair is a source and where its twin is.
type pair struct{ source, place types.NamespacedName }

// creating takes in that a twin is about to be asked for. answered takes in the answer, before anybody else hears of it.
func (g *guard) creating(source, place types.NamespacedName) (answered func(twin metav1.Object, err error)) {
	one := pair{source, place}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fresh.making == nil {
		g.fresh.making = map[pair]bool{}
	}
	g.fresh.making[one] = true
	return func(twin metav1.Object, err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.fresh.making, one)
		if !g.current.Paused {
			return
		}
		var uid types.UID
		switch answer, _ := boundary.Classify(boundary.OpCreate, err); answer {
		case boundary.Done:
			uid = twin.GetUID()
		case boundary.Unknown:
		default: // it was not made
			return
		}
		if g.fresh.made == nil {
			g.fresh.made = map[pair]types.UID{}
		}
		g.fresh.made[one] = uid
	}
}

// isFresh reports whether a twin is one that was created while deletes were held, or that is being created.
func (g *guard) isFresh(source types.NamespacedName, twin store.Item) bool {
	one := pair{source, twin.Key()}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fresh.making[one] {
		return true
	}
	uid, ok := g.fresh.made[one]
	return ok && (uid == "" || uid == twin.UID())
}
