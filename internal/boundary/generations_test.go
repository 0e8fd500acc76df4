package boundary

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

func TestT3_ObservedGenerationInTheSourcesTerms(t *testing.T) {
	for _, test := range []struct {
		name         string
		g            generations
		status, have string
		want         string
	}{
		{"the twin's generation", generations{twin: 5, source: 9, held: true}, `{observedGeneration: 5}`, `null`, `{observedGeneration: 9}`},
		{"an earlier one, none before", generations{5, 9, true}, `{observedGeneration: 4}`, `null`, `{observedGeneration: 8}`},
		{"an earlier one, one before", generations{5, 9, true}, `{observedGeneration: 4}`, `{observedGeneration: 6}`, `{observedGeneration: 6}`},
		{"an earlier one, too much before", generations{5, 9, true}, `{observedGeneration: 4}`, `{observedGeneration: 9}`, `{observedGeneration: 8}`},
		{"a later one", generations{5, 9, true}, `{observedGeneration: 7}`, `{observedGeneration: 3}`, `{observedGeneration: 3}`},
		{"not held", generations{5, 9, false}, `{observedGeneration: 5}`, `null`, `{observedGeneration: 8}`},
		{"not held, one before", generations{5, 9, false}, `{observedGeneration: 5}`, `{observedGeneration: 7}`, `{observedGeneration: 7}`},
		{"a decimal string", generations{5, 9, true}, `{observedGeneration: "5"}`, `null`, `{observedGeneration: "9"}`},
		{"a decimal string, an integer before", generations{5, 9, true}, `{observedGeneration: "4"}`, `{observedGeneration: 2}`, `{observedGeneration: "2"}`},
		{"not a number", generations{5, 9, true}, `{observedGeneration: five}`, `null`, `{observedGeneration: five}`},
		{"null", generations{5, 9, true}, `{observedGeneration: null}`, `null`, `{observedGeneration: null}`},
		{"conditions", generations{5, 9, true}, `{conditions: [{type: A, observedGeneration: 5}, {type: B, observedGeneration: 4}, {type: C}]}`,
			`{conditions: [{type: B, observedGeneration: 2}]}`, `{conditions: [{type: A, observedGeneration: 9}, {type: B, observedGeneration: 2}, {type: C}]}`},
		{"conditions in another order before", generations{5, 9, true}, `{conditions: [{type: A, observedGeneration: 4}, {type: B, observedGeneration: 4}]}`,
			`{conditions: [{type: B, observedGeneration: 2}, {type: A, observedGeneration: 3}]}`, `{conditions: [{type: A, observedGeneration: 3}, {type: B, observedGeneration: 2}]}`},
		{"conditions in lists, as Gateway API has them", generations{5, 9, true},
			`{parents: [{parentRef: {name: a}, conditions: [{type: A, observedGeneration: 5}]}, {parentRef: {name: b}, conditions: [{type: A, observedGeneration: 4}]}]}`,
			`{parents: [{parentRef: {name: b}, conditions: [{type: A, observedGeneration: 3}]}]}`,
			`{parents: [{parentRef: {name: a}, conditions: [{type: A, observedGeneration: 9}]}, {parentRef: {name: b}, conditions: [{type: A, observedGeneration: 3}]}]}`},
		{"lists in lists", generations{5, 9, true}, `{a: [{b: [{conditions: [{type: A, observedGeneration: 5}]}]}]}`, `null`, `{a: [{b: [{conditions: [{type: A, observedGeneration: 9}]}]}]}`},
		{"an item's own, beside its conditions", generations{5, 9, true}, `{a: [{observedGeneration: 5, conditions: [{observedGeneration: 5}]}]}`, `null`,
			`{a: [{observedGeneration: 5, conditions: [{observedGeneration: 9}]}]}`},
		{"not deeper in objects", generations{5, 9, true}, `{other: {observedGeneration: 5, conditions: [{observedGeneration: 5}]}}`, `null`,
			`{other: {observedGeneration: 5, conditions: [{observedGeneration: 5}]}}`},
		{"not in embedded objects", generations{5, 9, true}, `{l: [{apiVersion: v1, kind: X, conditions: [{observedGeneration: 5}]}], conditions: [{apiVersion: v1, kind: X, observedGeneration: 5}]}`, `null`,
			`{l: [{apiVersion: v1, kind: X, conditions: [{observedGeneration: 5}]}], conditions: [{apiVersion: v1, kind: X, observedGeneration: 5}]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, have := value(t, test.status), value(t, test.have)
			got := test.g.translate(status, have)
			if diff := cmp.Diff(value(t, test.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(value(t, test.status), status); diff != "" {
				t.Errorf("the twin's status was changed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, test.g.translate(status, got)); diff != "" {
				t.Errorf("translating again changes it (-once +twice):\n%s", diff)
			}
		})
	}
}

// remoteModel is a source, its twin, the controller of the twin's kind, and Isthmus between them; each sees the others
// as late as it likes.
type remoteModel struct {
	t      *rapid.T
	rule   *Rule
	source *unstructured.Unstructured
	server *server // nil: there is no twin
	// cached are what Isthmus sees; cachedTwin is nil where it sees none.
	cachedSource, cachedTwin *unstructured.Unstructured

	// The controller has read this of the twin, not written yet.
	readGeneration int64
	readContent    any
	// seen are the contents of which it reported while the twin held them, and has held no other of ours since.
	seen     map[any]bool
	asString bool
	// refusing: the twin's server refuses what Isthmus would apply.
	refusing bool
}

func content(obj *unstructured.Unstructured) any {
	v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "replicas")
	return v
}

func (m *remoteModel) decide() Decision {
	scene := newScene(m.t)
	scene.Rules, scene.Source, scene.Twin = []*Rule{m.rule}, m.cachedSource, m.cachedTwin
	if m.refusing {
		scene.Memory.FaultHash, scene.Memory.RetryAt = wanted(&scene.Input).hash, noon.Add(time.Hour)
	}
	return Decide(scene.Input)
}

// step lets Isthmus decide once, and the servers answer.
func (m *remoteModel) step(t *rapid.T) {
	switch d := m.decide(); d.Action {
	case Create:
		if m.server == nil {
			m.server = newServer(m.t, widgetTypes(m.t), widgetGVK)
			m.write(d)
		}
	case Apply:
		if m.server != nil && d.ResourceVersion == strconv.Itoa(m.server.version) {
			m.write(d)
		}
	case ReturnStatus:
		m.source.Object["status"] = runtime.DeepCopyJSONValue(d.Status)
	case ClearStatus:
		delete(m.source.Object, "status")
	case Nothing:
	case Hold:
		if !m.refusing {
			t.Fatalf("held: %q", d.Reasons)
		}
	default:
		t.Fatalf("unexpected %s: %q", d.Action, d.Reasons)
	}
}

// write applies; the answer holds the twin.
func (m *remoteModel) write(d Decision) {
	m.server.apply(d.Body, FieldManager)
	m.cachedTwin = m.server.twin()
	applied := content(m.cachedTwin)
	m.seen = map[any]bool{applied: m.seen[applied]}
}

func (m *remoteModel) see() { m.seeSource(nil); m.seeTwin(nil) }

func (m *remoteModel) seeSource(*rapid.T) { m.cachedSource = m.source.DeepCopy() }

func (m *remoteModel) seeTwin(*rapid.T) {
	if m.cachedTwin = nil; m.server != nil {
		m.cachedTwin = m.server.twin()
	}
}

func (m *remoteModel) edit(t *rapid.T) {
	v := rapid.Int64Range(0, 2).Draw(t, "replicas")
	if content(m.source) != any(v) {
		set(m.source, v, "spec", "replicas")
		m.source.SetGeneration(m.source.GetGeneration() + 1)
	}
}

// touch changes what belongs to the target side, so nothing that crosses.
func (m *remoteModel) touch(*rapid.T) {
	m.source.SetGeneration(m.source.GetGeneration() + 1)
	set(m.source, strconv.FormatInt(m.source.GetGeneration(), 10), "spec", "image")
}

func (m *remoteModel) foreign(t *rapid.T) {
	if m.server == nil {
		t.Skip()
	}
	v := rapid.Int64Range(0, 3).Draw(t, "replicas")
	m.server.update("somebody", func(o *unstructured.Unstructured) { set(o, v, "spec", "replicas") })
}

func (m *remoteModel) read(t *rapid.T) {
	if m.server == nil {
		t.Skip()
	}
	twin := m.server.twin()
	m.readGeneration, m.readContent = twin.GetGeneration(), content(twin)
}

func (m *remoteModel) report(t *rapid.T) {
	if m.server == nil || m.readGeneration == 0 {
		t.Skip()
	}
	var v any = m.readGeneration
	if m.asString {
		v = strconv.FormatInt(m.readGeneration, 10)
	}
	m.server.status = map[string]any{observedGeneration: v, conditionsField: []any{map[string]any{"type": "Ready", observedGeneration: v}}}
	m.server.version++
	if m.readGeneration == m.server.generation {
		m.seen[m.readContent] = true
	}
}

func (m *remoteModel) observed() []int64 {
	status := asObject(m.source.Object["status"])
	found := []int64{}
	if v, _, ok := asGeneration(status[observedGeneration]); ok {
		found = append(found, v)
	}
	if list, _ := status[conditionsField].([]any); len(list) > 0 {
		if v, _, ok := asGeneration(asObject(list[0])[observedGeneration]); ok {
			found = append(found, v)
		}
	}
	return found
}

// check: the source says that its present spec was seen only if the controller did see it.
func (m *remoteModel) check(t *rapid.T) {
	for _, v := range m.observed() {
		if v > m.source.GetGeneration() {
			t.Fatalf("observed %d, beyond generation %d", v, m.source.GetGeneration())
		}
		if v == m.source.GetGeneration() && !m.seen[content(m.source)] {
			t.Fatalf("observed %d, but the controller has reported on %v, and the source says %v", v, m.seen, content(m.source))
		}
	}
}

func TestT3_NeverTrueBeforeTheControllerHasSeenIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &remoteModel{t: t, rule: widgetRule(), asString: rapid.Bool().Draw(t, "asString")}
		m.rule.RemoteOwned = []Path{MustPath("spec.image")}
		m.source = object(t, blueWidget)
		m.source.SetGeneration(1)
		m.see()
		t.Repeat(map[string]func(*rapid.T){
			"edit": m.edit, "touch": m.touch, "foreign": m.foreign, "read": m.read, "report": m.report,
			"refuse": func(*rapid.T) { m.refusing = !m.refusing }, "seeSource": m.seeSource, "seeTwin": m.seeTwin, "step": m.step, "step again": m.step, "": m.check,
		})
		m.refusing = false
		// At rest it tells the truth, and nothing is written any more.
		for range 3 {
			for range 6 {
				m.see()
				m.step(t)
				m.check(t)
			}
			m.read(t)
			m.report(t)
		}
		m.see()
		m.step(t)
		m.see()
		if d := m.decide(); d.Action != Nothing {
			t.Fatalf("not at rest: %s, %q", d.Action, d.Reasons)
		}
		for _, v := range m.observed() {
			if v != m.source.GetGeneration() {
				t.Fatalf("observed %d at rest, want %d", v, m.source.GetGeneration())
			}
		}
		if len(m.observed()) != 2 {
			t.Fatalf("status %v", m.source.Object["status"])
		}
	})
}
