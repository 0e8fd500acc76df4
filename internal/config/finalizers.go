package config

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"isthmus.dev/isthmus/internal/boundary"
)

// carryFinalizers checks the finalizers that twins carry.
func (c *compiler) carryFinalizers(e *SyncResource, p *field.Path) []string {
	for i, name := range e.CarryFinalizers {
		at := p.Child("carryFinalizers").Index(i)
		fault := first(validation.IsQualifiedName(name))
		switch {
		case !c.sound(at):
		case fault != "":
			c.errorf(at, "%s is no finalizer: %s", show(name), fault)
		case boundary.ReservedKey(name):
			c.errorf(at, "%s is a copying system's own: remove it", name)
		case name == metav1.FinalizerDeleteDependents, name == metav1.FinalizerOrphanDependents:
			c.errorf(at, "%s belongs to the garbage collector of each side: remove it", name)
		case slices.Contains(e.CarryFinalizers[:i], name):
			c.errorf(at, "%s is listed twice: remove one", show(name))
		}
	}
	return e.CarryFinalizers
}
