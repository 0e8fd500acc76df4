package boundary

import "slices"

// unselected decides about a twin of ours whose source is gone, is not selected, or belongs elsewhere now. The first
// row of the deletion table that fits decides; what keeps twins because a side can't be read is the flow's, which
// then asks for no decision. last: the source has no twin elsewhere, so none is left whose status it could have.
func (d *decider) unselected(stamp Stamp, last bool) {
	if slices.Contains(d.in.Waiting, stamp.Rule) {
		d.hold(UntilChange, "what rule %s carries can't be said for now, so what it has carried stays as it is", stamp.Rule)
		return
	}
	for _, removed := range d.in.Removed {
		if removed.Name == stamp.Rule && !d.selected() {
			d.because("rule %s was removed, onRemoval is %s", removed.Name, removed.OnRemoval)
			if removed.OnRemoval == RemovalOrphan {
				d.release()
			} else {
				d.deleteTwin()
			}
			return
		}
	}
	d.guardedDelete()
	d.out.ClearFirst = d.out.Action == Delete && last && d.mayStand(stamp)
}

// selected reports whether a rule selects the source, for another place: then the twin's rule is not what it goes for.
func (d *decider) selected() bool {
	return d.in.Source != nil && Keeps(d.in.Rules, d.in.Source, d.in.Naming)
}

// mayStand reports whether the source may still exist, merely not selected any more, with a status that was returned
// to it from here. A rule without any selection loses a source only by its deletion; namespaces change with the
// configuration, and that is never observed.
func (d *decider) mayStand(stamp Stamp) bool {
	for _, rule := range d.in.Rules {
		if rule.Name == stamp.Rule {
			narrowed := len(rule.Namespaces.Include)+len(rule.Namespaces.Exclude) > 0 || d.in.Naming.Sources() != nil
			from := rule.ReturnsFrom(d.in.Remote) && (rule.StatusFrom != "" || len(d.in.Elsewhere) == 0)
			return from && (d.in.Source != nil || rule.Policy != PolicyAll || !rule.Selector.Empty() ||
				narrowed && d.in.Evidence == Inferred)
		}
	}
	return false
}

// withdrawn reports whether the source has no place because its namespace was taken out on purpose. Somebody was seen to
// do that, as others are seen to delete a source, so the guard neither counts nor holds it (F8).
func (d *decider) withdrawn() bool {
	return d.in.Withdrawn && !slices.ContainsFunc(d.in.Rules, func(r *Rule) bool { return d.in.Naming.Admits(r, d.in.Key.Namespace) })
}

// guardedDelete deletes the twin, unless the deletion was inferred and the guard holds such (F8).
func (d *decider) guardedDelete() {
	if d.in.Evidence == Inferred && !d.withdrawn() {
		d.out.Guarded = true
		switch {
		case d.in.Guard.Paused && d.in.Guard.Twins == 0: // nobody could count yet
			d.hold(UntilGuard, "not everything is listed, so no twin goes for a reason that was only inferred")
			return
		case d.in.Guard.Paused:
			d.hold(UntilGuard, "%d of %d twins would go for a reason that was inferred, so none does until somebody allows it",
				d.in.Guard.Deletes, d.in.Guard.Twins)
			return
		}
	}
	d.deleteTwin()
}

// deleteTwin deletes a twin of ours, bound to the state that was looked at (D1, P3).
func (d *decider) deleteTwin() {
	d.tellTrouble(d.out.Rule)
	switch {
	case terminating(d.in.Twin):
		d.hold(UntilTwinGone, "the twin is terminating")
	case (d.in.Source == nil || terminating(d.in.Source)) && !d.in.Confirmed:
		d.hold(UntilConfirmed, "whether the source is gone, or goes, by itself has to be confirmed by its cluster")
	default:
		d.out.Action = Delete
		d.out.UID, d.out.ResourceVersion = d.in.Twin.GetUID(), d.in.Twin.GetResourceVersion()
	}
}

// release lets go of a twin: stamp and ownership go, the values stay (D, Orphan).
func (d *decider) release() {
	if terminating(d.in.Twin) {
		d.hold(UntilTwinGone, "the twin is terminating")
		return
	}
	d.out.Action = Release
	d.out.UID, d.out.ResourceVersion = d.in.Twin.GetUID(), d.in.Twin.GetResourceVersion()
}
