package flow

import (
	"encoding/hex"
	"strings"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// still is the state of a source at rest, packed. A flow has one for each of its sources, so each byte counts.
type still struct {
	common unique.Handle[common]
	own    *own // nil: the source has nothing of its own
}

// common is what many sources at rest have alike.
type common struct {
	outcome         outcome
	rule            string
	undeclared      string
	statusContested bool
	hashPrefix      string // what Wrote begins with
	has             parts
}

// own is what a source at rest has for itself: hashes and UIDs, as bytes.
type own struct {
	wrote                       [16]byte
	statusWritten, statusResult [8]byte
	statusOf, came              [16]byte
}

// parts say which fields of an own are in use.
type parts uint8

const (
	hasWrote parts = 1 << iota
	hasStatusWritten
	hasStatusResult
	hasStatusOf
	hasCame
)

// pack makes the state of a source at rest small; ok is false for one that is not at rest, or that has something to
// remember for which a still has no room.
func (st *state) pack(now time.Time) (packed still, ok bool) {
	left := *st // what is not packed yet
	memory := &left.memory
	if left.outcome == "" || !left.spec.idle(now) || !left.status.idle(now) {
		return still{}, false
	}
	shared := common{outcome: left.outcome, rule: left.rule, undeclared: memory.Undeclared, statusContested: memory.StatusContested}
	var mine own
	digits := max(0, len(memory.Wrote)-hex.EncodedLen(len(mine.wrote)))
	shared.hashPrefix = memory.Wrote[:digits]
	if !shared.take(hasWrote, mine.wrote[:], memory.Wrote[digits:]) ||
		!shared.take(hasStatusWritten, mine.statusWritten[:], memory.StatusWritten) ||
		!shared.take(hasStatusResult, mine.statusResult[:], memory.StatusResult) ||
		!shared.takeUID(hasStatusOf, &mine.statusOf, memory.StatusOf) ||
		!shared.takeUID(hasCame, &mine.came, left.came) {
		return still{}, false
	}
	left.outcome, left.rule, left.came = "", "", ""
	left.spec, left.status = pace{}, pace{} // they are idle
	memory.Undeclared, memory.StatusContested, memory.Wrote = "", false, ""
	memory.StatusWritten, memory.StatusResult, memory.StatusOf = "", "", ""
	memory.Fault, memory.RetryAt, memory.StatusRetryAt = "", time.Time{}, time.Time{} // nothing without a hash of what was refused
	if memory.TwinFight.Over(now) {
		memory.TwinFight = nil
	}
	if memory.SourceFight.Over(now) {
		memory.SourceFight = nil
	}
	if left != (state{}) {
		return still{}, false
	}
	packed.common = unique.Make(shared)
	if shared.has != 0 {
		packed.own = &mine
	}
	return packed, true
}

// open undoes pack.
func (packed still) open() (st state) {
	shared := packed.common.Value()
	st.outcome, st.rule = shared.outcome, shared.rule
	st.memory.Undeclared, st.memory.StatusContested = shared.undeclared, shared.statusContested
	if shared.has == 0 {
		return st
	}
	if shared.has&hasWrote != 0 {
		st.memory.Wrote = shared.hashPrefix + hex.EncodeToString(packed.own.wrote[:])
	}
	if shared.has&hasStatusWritten != 0 {
		st.memory.StatusWritten = hex.EncodeToString(packed.own.statusWritten[:])
	}
	if shared.has&hasStatusResult != 0 {
		st.memory.StatusResult = hex.EncodeToString(packed.own.statusResult[:])
	}
	if shared.has&hasStatusOf != 0 {
		st.memory.StatusOf = uidOf(packed.own.statusOf)
	}
	if shared.has&hasCame != 0 {
		st.came = uidOf(packed.own.came)
	}
	return st
}

// take keeps a hexadecimal number as bytes; an empty one is none. It returns false for what would not come back as it was.
func (c *common) take(part parts, into []byte, digits string) bool {
	if digits == "" {
		return true
	}
	if _, err := hex.Decode(into, []byte(digits[:min(len(digits), hex.EncodedLen(len(into)))])); err != nil {
		return false
	}
	c.has |= part
	return hex.EncodeToString(into) == digits
}

// takeUID is take for a UID, as API servers make them.
func (c *common) takeUID(part parts, into *[16]byte, uid types.UID) bool {
	return c.take(part, into[:], strings.ReplaceAll(string(uid), "-", "")) && (uid == "" || uidOf(*into) == uid)
}

func uidOf(bytes [16]byte) types.UID {
	digits := hex.EncodeToString(bytes[:])
	return types.UID(strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, "-"))
}
