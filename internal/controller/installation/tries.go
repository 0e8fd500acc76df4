package installation

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/observe"
)

// How often an object is tried again, and how often it is put back against another writer (O6).
const (
	retryFirst = time.Second
	retryMost  = time.Minute
	fightMost  = 8 // writes in fightSpan
	fightSpan  = 30 * time.Second
	fightPause = time.Minute
)

// try is what is remembered of the writes of one object.
type try struct {
	writes []time.Time // that went well, lately
	// Of the last one, if it failed: what was written to what, what came of it, how often in a row, and when it is due again.
	body, version string
	text          string
	answer        boundary.Answer
	fails         int
	due           time.Time
}

// tries are those of all objects of an Installation.
type tries map[objectKey]try

// barred returns in how long an object may be written again, and what came of it last, if it failed and is not undone by
// others; 0: now.
func (t tries) barred(key objectKey, body string, live *unstructured.Unstructured) (text string, answer boundary.Answer, due time.Duration) {
	one := t[key]
	if one.fails > 0 && one.body == body && one.version == versionOf(live) {
		return one.text, one.answer, time.Until(one.due)
	}
	if n := len(one.writes); n >= fightMost {
		return "", "", time.Until(one.writes[n-1].Add(fightPause))
	}
	return "", "", 0
}

// failed takes in that a write failed, and returns in how long it is due again.
func (t tries) failed(key objectKey, body string, live *unstructured.Unstructured, text string, answer boundary.Answer, after time.Duration) time.Duration {
	one := t[key]
	if one.body != body || one.version != versionOf(live) {
		one.fails = 0
	}
	wait := max(min(retryFirst<<min(one.fails, 6), retryMost), after)
	one.body, one.version, one.text, one.answer = body, versionOf(live), text, answer
	one.fails, one.due = one.fails+1, time.Now().Add(wait)
	t[key] = one
	return wait
}

// wrote takes in that a write went well.
func (t tries) wrote(key objectKey) {
	now := time.Now()
	var writes []time.Time
	for _, at := range t[key].writes {
		if now.Sub(at) < fightSpan || len(t[key].writes) >= fightMost && now.Sub(at) < 2*fightPause {
			writes = append(writes, at)
		}
	}
	writes = append(writes, now)
	t[key] = try{writes: writes[max(0, len(writes)-fightMost):]}
}

// calm takes in that an object is as it should be.
func (t tries) calm(key objectKey) {
	one, ok := t[key]
	if !ok {
		return
	}
	if n := len(one.writes); n == 0 || time.Since(one.writes[n-1]) > fightPause {
		delete(t, key)
		return
	}
	t[key] = try{writes: one.writes}
}

func versionOf(live *unstructured.Unstructured) string {
	if live == nil {
		return ""
	}
	return live.GetResourceVersion()
}

// redacted is what is told of an answer, in one line.
func redacted(err error, answer boundary.Answer, secret bool) string {
	switch answer {
	case boundary.NotPermitted, boundary.QuotaExceeded, boundary.NamespaceTerminating, boundary.NamespaceMissing:
		secret = false // such messages name verbs, kinds and amounts only
	}
	text := strings.Join(strings.Fields(observe.Redact(err, secret)), " ")
	if strings.Contains(text, "attempting to grant RBAC permissions") {
		text += " (missing is the verb escalate on it, or what it grants: see isthmus rbac --installations)"
	}
	return text
}
