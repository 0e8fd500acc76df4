package boundary

import (
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// returnStatusOr returns the twin's status to the source when the rule asks for it and it differs; else it goes on.
// held: the twin holds the source's content at its present generation, without drift.
func (d *decider) returnStatusOr(rule *Rule, held bool, then func()) {
	if !rule.ReturnStatus || d.unknownReference() { // what may be the translation of that can't be translated back yet
		then()
		return
	}
	switch d.say(rule, true) {
	case noSay:
		then()
		return
	case contested:
		d.statusOr(d.in.Source, nil, then)
		return
	}
	twin, source := d.in.Twin, d.in.Source
	g := generations{twin: twin.GetGeneration(), source: source.GetGeneration(), held: held}
	// The twin's own name is the source's, as a reference (T4).
	self := Translated{
		From: Reference{Group: rule.Kind.Group, GroupKnown: true, Kind: rule.Kind.Kind, Namespace: d.in.Key.Namespace, Name: d.in.Key.Name},
		To:   Reference{Group: rule.Kind.Group, GroupKnown: true, Kind: rule.Kind.Kind, Namespace: d.in.Place.Namespace, Name: d.in.Place.Name},
	}
	status := twin.Object["status"]
	if refs := append(d.want.refs[:len(d.want.refs):len(d.want.refs)], self); rule.Patches != nil {
		status = rule.Patches.BackTranslate(status, refs)
	}
	want := g.translate(status, source.Object["status"])
	d.statusOr(source, want, then)
}

// mirrorStatusOr writes the source's status to its mirror when it differs, with observedGeneration in the mirror's own
// generations (M2); else it goes on.
func (d *decider) mirrorStatusOr(rule *Rule, then func()) {
	if rule.Mode != ModeMirror {
		then()
		return
	}
	twin, source := d.in.Twin, d.in.Source
	g := generations{twin: source.GetGeneration(), source: twin.GetGeneration(), held: true}
	d.statusOr(twin, g.translate(source.Object["status"], twin.Object["status"]), then)
}

// clearStatusOr removes a status that was returned when there is no twin that it could speak of (T2).
func (d *decider) clearStatusOr(then func()) {
	if rule := d.out.Rule; rule == nil || !rule.ReturnStatus || d.say(rule, false) != sole {
		then()
		return
	}
	if !emptyStatus(d.in.Source.Object["status"]) && !d.returned() {
		d.because("the source's status was not returned from a twin, and is left alone")
		then()
		return
	}
	d.statusOr(d.in.Source, nil, then)
}

// statusOr writes a status to the source, or to a mirror, whole, unless it is there already (T2).
func (d *decider) statusOr(to *unstructured.Unstructured, want any, then func()) {
	have := to.Object["status"]
	want = declared(d.in.StatusSchema, want)
	stands := func() {
		if to == d.in.Source {
			fight, again := d.in.Memory.SourceFight.stands(d.in.Now)
			d.out.SourceFight = fight
			d.wake(again)
		}
		then()
	}
	if sameStatus(d.in.StatusSchema.FillDefaults(want), have) {
		stands()
		return
	}
	wantHash, memory := StatusHash(want), d.in.Memory
	asWritten := memory.StatusOf == to.GetUID() && memory.StatusResult == StatusHash(have)
	if asWritten && memory.StatusWritten == wantHash {
		stands() // the server makes this of what we write
		return
	}
	if d.in.Memory.StatusFault == StatusFault(wantHash, have) && d.in.Now.Before(d.in.Memory.StatusRetryAt) {
		d.out.StatusRefused = true
		d.because("the source's cluster refused to take the twin's status, and it is not time yet to try again")
		then()
		return
	}
	putBack := memory.StatusOf == to.GetUID() && !asWritten // others wrote since
	rival := func() Rival { return d.statusRival(to, want) }
	if to == d.in.Twin {
		d.toTwin(putBack, rival, func() {
			d.out.UID, d.out.StatusHash = to.GetUID(), wantHash
			d.out.Action, d.out.Status = MirrorStatus, want
			d.because("the source's status differs from the mirror's")
		})
		return
	}
	if next := memory.SourceFight.next(putBack, d.in.Now); next.After(d.in.Now) {
		d.out.SourceFight = d.contend(memory.SourceFight, next, rival())
		then()
		return
	}
	d.out.SourceFight = memory.SourceFight.wrote(putBack, d.in.Now)
	d.out.UID, d.out.StatusHash = to.GetUID(), wantHash
	if emptyStatus(want) {
		d.out.Action = ClearStatus
		d.because("there is no status to return, so the source keeps none")
		return
	}
	d.out.Action, d.out.Status = ReturnStatus, want
	d.because("the twin's status differs from the source's")
}

// declared leaves out what the source's side does not declare of status: its server would drop it.
func declared(s *Schema, status any) any {
	content, ok := status.(map[string]any)
	if !ok {
		return status
	}
	for _, path := range s.undeclared(content) {
		status = without(status, path)
	}
	return status
}

// emptyStatus reports whether a status says nothing, as one that is not there.
func emptyStatus(status any) bool {
	content, isObject := status.(map[string]any)
	return status == nil || isObject && len(content) == 0
}

// sameStatus reports whether a source has the status that it should have. Servers leave out null and empty lists, and
// write empty objects that nobody asked for, as they please; an empty object that is wanted may say something, as in
// {"state": {"running": {}}}.
func sameStatus(want, have any) bool {
	return emptyStatus(want) && prune(have) == nil || sameValue(want, have)
}

func sameValue(want, have any) bool {
	switch want := want.(type) {
	case nil:
		return prune(have) == nil
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range want {
			if !sameValue(v, have[k]) {
				return false
			}
		}
		for k, v := range have {
			if _, wanted := want[k]; !wanted && prune(v) != nil {
				return false
			}
		}
		return true
	case []any:
		if len(want) == 0 {
			return prune(have) == nil
		}
		have, ok := have.([]any)
		return ok && slices.EqualFunc(want, have, sameValue)
	case int64:
		if have, ok := have.(float64); ok {
			return float64(want) == have
		}
	case float64:
		if have, ok := have.(int64); ok {
			return want == float64(have)
		}
	}
	return want == have
}

// StatusHash returns a hash of a status.
func StatusHash(status any) string {
	if emptyStatus(status) {
		status = nil
	}
	sum := digest(status)
	return hex.EncodeToString(sum[:8])
}

// StatusFault identifies the refusal of a status, by its hash, on a source that has the status have.
func StatusFault(hash string, have any) string { return hash + "/" + StatusHash(have) }

const (
	observedGeneration = "observedGeneration"
	conditionsField    = "conditions"
)

// generations translates observedGeneration between the twin's and the source's generations (T3).
type generations struct {
	twin, source int64
	// held: the twin holds the source's content at source, without drift.
	held bool
}

// translate returns a twin's status in the source's generations. before is the status that the source has now. It goes
// into status itself, its conditions, and conditions in lists, but not into other objects.
func (g generations) translate(status, before any) any {
	object, ok := status.(map[string]any)
	if !ok {
		return status
	}
	return g.object(object, asObject(before))
}

func (g generations) object(object, before map[string]any) map[string]any {
	out := maps.Clone(object)
	if v, ok := object[observedGeneration]; ok {
		out[observedGeneration] = g.value(v, before[observedGeneration])
	}
	for field, v := range object {
		list, ok := v.([]any)
		if !ok {
			continue
		}
		beforeList, _ := before[field].([]any)
		items := slices.Clone(list)
		for i, item := range list {
			if m, ok := item.(map[string]any); ok {
				items[i] = g.item(field, m, counterpart(m, i, beforeList))
			}
		}
		out[field] = items
	}
	return out
}

// item translates an item of a list: a condition, or something that may have conditions of its own. An embedded
// object keeps its generations: they are its own.
func (g generations) item(field string, item, before map[string]any) map[string]any {
	if item["apiVersion"] != nil && item["kind"] != nil {
		return item
	}
	if field == conditionsField {
		v, ok := item[observedGeneration]
		if !ok {
			return item
		}
		out := maps.Clone(item)
		out[observedGeneration] = g.value(v, before[observedGeneration])
		return out
	}
	out := g.object(item, before)
	if v, ok := item[observedGeneration]; ok {
		out[observedGeneration] = v // only conditions count here
	}
	return out
}

// value translates one observedGeneration, an integer or a decimal string.
func (g generations) value(v, before any) any {
	remote, text, ok := asGeneration(v)
	if !ok {
		return v
	}
	result := g.source
	if !g.held || remote != g.twin {
		result = max(0, g.source-1)
		if returned, _, ok := asGeneration(before); ok && returned < result {
			result = returned
		}
	}
	if text {
		return strconv.FormatInt(result, 10)
	}
	return result
}

func asGeneration(v any) (generation int64, text, ok bool) {
	switch v := v.(type) {
	case int64:
		return v, false, true
	case float64:
		return int64(v), false, v == float64(int64(v))
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, true, err == nil
	}
	return 0, false, false
}

// counterpart finds the item of an earlier list that speaks of the same thing: of the same type or name, else equal
// but for its conditions, else at the same index.
func counterpart(item map[string]any, index int, list []any) map[string]any {
	for _, key := range []string{"type", "name"} {
		if id, ok := item[key].(string); ok {
			for _, other := range list {
				if m := asObject(other); m != nil && m[key] == id {
					return m
				}
			}
			return nil
		}
	}
	for _, other := range list {
		if m := asObject(other); m != nil && reflect.DeepEqual(without(m, Path{{Field: conditionsField}}), without(item, Path{{Field: conditionsField}})) {
			return m
		}
	}
	if index < len(list) {
		return asObject(list[index])
	}
	return nil
}

func asObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
