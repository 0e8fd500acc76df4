package boundary

import (
	"fmt"
	"slices"
	"strings"
)

// say is what a decision has to say in a source's status, which is one even where its twins are several (T5).
type say int

const (
	// sole: the status is this twin's, or nobody's while there is none.
	sole say = iota
	// noSay: the status is another twin's, or it is not known yet whose.
	noSay
	// contested: several twins could have it and no rule says which one does, so none has it.
	contested
)

// ReturnsFrom reports whether the rule returns the status of twins on a remote, by its cluster ID.
func (r *Rule) ReturnsFrom(remote string) bool {
	return r.ReturnStatus && (r.StatusFrom == "" || r.StatusFrom == remote)
}

// say finds out whose status the source's is. holds: it has a twin here.
func (d *decider) say(rule *Rule, holds bool) say {
	in := d.in
	switch {
	case rule.StatusFrom != "" && rule.StatusFrom == in.Remote:
		return sole
	case rule.StatusFrom != "":
		d.because("its status is that of its twin on %s (statusFrom)", rule.StatusFrom)
		return noSay
	case in.ElsewhereUnknown:
		d.because("its status stays: whether it has twins on other remotes is not known yet")
		return noSay
	case len(in.Elsewhere) == 0:
		return sole
	case !holds:
		d.because("its status is that of its twins on other remotes (%s)", strings.Join(in.Elsewhere, ", "))
		return noSay
	}
	d.contest()
	return contested
}

// contest tells, once, that no status returns because it could be that of several twins.
func (d *decider) contest() {
	remotes := slices.Sorted(slices.Values(append(slices.Clone(d.in.Elsewhere), d.in.Remote)))
	message := fmt.Sprintf("has twins on the remotes %s, and its rule has no statusFrom to say whose status returns, so none does", strings.Join(remotes, ", "))
	d.because("%s", message)
	d.out.StatusContested = true
	if !d.in.Memory.StatusContested {
		d.out.Events = append(d.out.Events, Event{true, ReasonSyncFailed, message})
	}
}
