package flow

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"isthmus.dev/isthmus/internal/boundary"
)

var evening = time.Date(2030, 1, 2, 18, 0, 0, 0, time.UTC)

// anyState draws a state of which each field is likely to be empty, and else may be as it should or odd.
func anyState(t *rapid.T) state {
	rarely := func(name string) bool { return rapid.IntRange(0, 29).Draw(t, name) == 0 }
	text := func(name string, usual ...string) string {
		if rarely(name + " is odd") {
			usual = []string{"x", "-", "00FF00FF00FF00FF", strings.Repeat("é", 20)}
		}
		return rapid.SampledFrom(append(usual, "")).Draw(t, name)
	}
	uid := func(name string) types.UID {
		if rarely(name + " is no UUID") {
			return types.UID(rapid.SampledFrom([]string{"0B5F6A1E-3b7c-4a5d-9a55-2f5f5a1e3b7c", "0b5f6a1e3b7c4a5d9a552f5f5a1e3b7c", "uid-1"}).Draw(t, name))
		}
		return types.UID(text(name, "0b5f6a1e-3b7c-4a5d-9a55-2f5f5a1e3b7c"))
	}
	at := func(name string) (at time.Time) {
		if rarely(name) {
			at = evening
		}
		return at
	}
	writes := func(name string) pace {
		since := evening.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, name+" since")) * time.Minute)
		return pace{spent: rapid.IntRange(0, 3).Draw(t, name), since: since, busy: since}
	}
	fight := func(name string) *boundary.Fight {
		if !rarely(name) {
			return nil
		}
		return &boundary.Fight{Writes: 1, Last: evening.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, name+" last")) * 20 * time.Second), Since: at(name + " since")}
	}
	st := state{
		outcome: rapid.SampledFrom(append([]outcome{""}, outcomes...)).Draw(t, "outcome"), rule: text("rule", "widgets"),
		came: uid("came"), spec: writes("spec"), status: writes("status"),
		goneAt: at("goneAt"), changed: at("changed"), statusChanged: at("statusChanged"), uncertain: rarely("uncertain"),
		memory: boundary.Memory{
			Undeclared: text("undeclared", "not declared: spec.x"), StatusContested: rarely("contested"),
			Wrote:         text("wrote", "v1-00112233445566778899aabbccddeeff", "v2-ffeeddccbbaa99887766554433221100"),
			StatusWritten: text("statusWritten", "0011223344556677"), StatusResult: text("statusResult", "0011223344556677", "8899aabbccddeeff"),
			StatusOf: uid("statusOf"), RetryAt: at("retryAt"), StatusRetryAt: at("statusRetryAt"),
			TwinFight: fight("twinFight"), SourceFight: fight("sourceFight"), AbsentSince: at("absentSince"),
		},
	}
	if rarely("refused") {
		st.memory.FaultHash, st.memory.Fault, st.faults = "v1-1", "no", 1
	}
	if rarely("gone") {
		st.gone, st.deleted, st.crossed = uid("gone UID"), uid("deleted"), uid("crossed")
	}
	return st
}

// What is packed comes back as it was, but for what counts no more; what would not is not packed.
func TestStatesAtRestComeBack(t *testing.T) {
	packs := 0
	rapid.Check(t, func(t *rapid.T) {
		st := anyState(t)
		packed, ok := st.pack(evening)
		if !ok {
			return
		}
		packs++
		if !st.spec.idle(evening) || !st.status.idle(evening) {
			t.Fatal("it has written just now")
		}
		want := st
		want.spec, want.status = pace{}, pace{}
		for _, fight := range []**boundary.Fight{&want.memory.TwinFight, &want.memory.SourceFight} {
			if *fight != nil && (!(*fight).Since.IsZero() || evening.Sub((*fight).Last) < 30*time.Second) {
				t.Fatal("a fight goes on")
			}
			*fight = nil
		}
		if want.memory.FaultHash+want.memory.StatusFault != "" {
			t.Fatal("something was refused")
		}
		want.memory.Fault, want.memory.RetryAt, want.memory.StatusRetryAt = "", time.Time{}, time.Time{}
		if got := packed.open(); got != want {
			t.Fatalf("packed:   %+v\nreturned: %+v", want, got)
		}
	})
	if packs == 0 {
		t.Error("nothing was ever packed")
	}
}

// What is remembered of a source that was written, and has come to rest, is packed; and asked for, or woken, it is there.
func TestStatesComeToRest(t *testing.T) {
	s := newStates(func() {})
	key := types.NamespacedName{Namespace: "a", Name: "one"}
	wrote := boundary.Memory{
		Wrote: "v1-00112233445566778899aabbccddeeff", StatusOf: "0b5f6a1e-3b7c-4a5d-9a55-2f5f5a1e3b7c",
		StatusWritten: "0011223344556677", StatusResult: "8899aabbccddeeff",
	}
	now := time.Now()
	s.with(key, func(st *state) {
		st.memory, st.rule, st.came = wrote, "widgets", wrote.StatusOf
		st.changed = now
		st.spec.take(now)
	})
	s.settle(key, pending)
	s.doze(key, now.Add(time.Hour))
	if len(s.still) != 0 {
		t.Fatal("a change waits")
	}
	s.arrive(key, inStep)
	s.doze(key, now)
	if len(s.still) != 0 {
		t.Fatal("it was written just now")
	}
	s.sweep(now.Add(time.Minute))
	if len(s.still) != 1 || len(s.awake) != 0 {
		t.Fatalf("%d at rest, %d awake", len(s.still), len(s.awake))
	}
	s.each(func(of types.NamespacedName, st *state) {
		if of != key || st.outcome != inStep || st.rule != "widgets" {
			t.Errorf("%s stands as %+v", of, st)
		}
	})
	if st := s.get(key); st.memory != wrote || st.came != wrote.StatusOf || st.rule != "widgets" || len(s.still) != 1 {
		t.Errorf("%+v", st)
	}
	s.settle(key, "")
	if st := s.get(key); st.memory != wrote || len(s.still) != 0 || s.count()[inStep] != 0 {
		t.Errorf("%+v", st)
	}
	if size := unsafe.Sizeof(own{}); size != 64 {
		t.Errorf("what a source has for itself takes %d bytes, more than the 64 that one of the runtime's sizes has", size)
	}
}
