package boundary

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// A model of T3: a source, its twin, the controller of the twin's kind, and Isthmus between them. Each sees the others
// as late as it likes. Isthmus is Decide itself; the twin's fields are owned as a real server has it.

// world is a state of all of them. Worlds are compared, and a step makes another one.
type world struct {
	source     sourceState
	seenSource sourceState // by Isthmus; the zero value: not listed
	twin       twinState   // the zero value: there is none
	seenTwin   twinState
	listed     bool      // Isthmus has listed the twins
	read       twinState // by the controller, and not reported yet
	refusing   bool      // the twin's server refuses what Isthmus would write
	born       int       // twins so far
}

type sourceState struct {
	generation     int64
	content, label int64
	status         statusState
}

// statusState is a status: what generation was observed, and which content the controller then saw.
type statusState struct{ observed, saw int64 }

type twinState struct {
	body       int // of bodies
	uid        int
	generation int64
	status     statusState
}

// body is what a twin's server keeps but for counters and status, and the writes that brought it about.
type body struct {
	object  *unstructured.Unstructured
	content int64
	writes  []write
}

// write is an apply by Isthmus, or an update of a field by somebody.
type write struct {
	apply string // JSON
	field string
	value any
}

// model remembers what its parts do, which depends on little.
type model struct {
	t       tester
	rule    *Rule
	text    bool // observedGeneration is a decimal string
	bodies  []body
	known   map[string]int // by what is in it
	written map[[2]any]int // a body and a write: the next body
	decided map[decisionKey]decided
	rests   map[world]bool
}

type decisionKey struct {
	source   sourceState
	twin     twinState
	refusing bool
}

// decided is what matters here of a decision.
type decided struct {
	action Action
	apply  string
	status statusState
	why    string
}

func newModel(t tester) *model {
	m := &model{
		t: t, rule: widgetRule(), known: map[string]int{}, written: map[[2]any]int{},
		decided: map[decisionKey]decided{}, rests: map[world]bool{},
	}
	m.rule.RemoteOwned = []Path{MustPath("spec.image")}
	m.bodies = []body{{}} // that of no twin
	return m
}

func newWorld() world { return world{source: sourceState{generation: 1, content: 1}} }

// step is one that the world may take; ok is false where it can't.
type step struct {
	name string
	take func(*model, *world) (ok bool)
}

var steps = []step{
	{"the source's content is edited", func(_ *model, w *world) bool {
		w.source.generation++
		w.source.content = 3 - w.source.content
		return true
	}},
	{"the source is edited where nothing crosses", func(_ *model, w *world) bool {
		w.source.generation++
		return true
	}},
	{"the source's metadata is edited", func(_ *model, w *world) bool {
		w.source.label = 1 - w.source.label
		return true
	}},
	{"Isthmus sees the source", func(_ *model, w *world) bool {
		w.seenSource = w.source
		return true
	}},
	{"Isthmus sees the twin", func(_ *model, w *world) bool {
		w.seenTwin, w.listed = w.twin, true
		return true
	}},
	{"Isthmus acts", (*model).act},
	{"Isthmus restarts", func(_ *model, w *world) bool {
		w.seenSource, w.seenTwin, w.listed = sourceState{}, twinState{}, false
		return true
	}},
	{"the controller reads", func(_ *model, w *world) bool {
		w.read = w.twin
		return w.twin.uid != 0
	}},
	{"the controller reports", func(m *model, w *world) bool {
		if w.read.uid == 0 || w.read.uid != w.twin.uid {
			return false
		}
		w.twin.status = statusState{w.read.generation, m.bodies[w.read.body].content}
		return true
	}},
	{"somebody edits the twin's content", func(m *model, w *world) bool { return m.edit(w, "replicas", int64(9)) }},
	{"somebody edits what is the target side's", func(m *model, w *world) bool {
		return m.edit(w, "image", fmt.Sprintf("v%d", w.twin.generation))
	}},
	{"somebody deletes the twin", func(_ *model, w *world) bool {
		there := w.twin.uid != 0
		w.twin = twinState{}
		return there
	}},
	{"the twin's server refuses, or no longer", func(_ *model, w *world) bool {
		w.refusing = !w.refusing
		return true
	}},
}

func (m *model) edit(w *world, field string, value any) bool {
	if w.twin.uid == 0 {
		return false
	}
	m.write(&w.twin, write{field: field, value: value})
	return true
}

// write writes to the twin's server.
func (m *model) write(twin *twinState, change write) {
	key := [2]any{twin.body, change}
	next, ok := m.written[key]
	if !ok {
		before := m.bodies[twin.body]
		next = m.replay(append(before.writes[:len(before.writes):len(before.writes)], change))
		m.written[key] = next
	}
	if twin.body == 0 || m.spec(next) != m.spec(twin.body) {
		twin.generation++
	}
	twin.body = next
}

func (m *model) spec(body int) string {
	return fmt.Sprint(m.bodies[body].object.Object["spec"])
}

// replay brings about a body, or finds the one that is the same.
func (m *model) replay(writes []write) int {
	s := newServer(m.t, widgetTypes(m.t), widgetGVK)
	for _, w := range writes {
		if w.apply == "" {
			s.update("somebody", func(o *unstructured.Unstructured) { set(o, w.value, "spec", w.field) })
			continue
		}
		applied := map[string]any{}
		if err := json.Unmarshal([]byte(w.apply), &applied); err != nil {
			m.t.Fatal(err)
		}
		s.apply(fromJSON(m.t, []byte(w.apply)).Object, FieldManager)
	}
	twin := s.twin()
	twin.SetGeneration(0)
	fields := twin.GetManagedFields()
	for i := range fields {
		fields[i].Time = nil
	}
	twin.SetManagedFields(fields)
	encoded, err := twin.MarshalJSON()
	if err != nil {
		m.t.Fatal(err)
	}
	if known, ok := m.known[string(encoded)]; ok {
		return known
	}
	content, _, _ := unstructured.NestedInt64(twin.Object, "spec", "replicas")
	m.bodies = append(m.bodies, body{twin, content, writes})
	m.known[string(encoded)] = len(m.bodies) - 1
	return len(m.bodies) - 1
}

// act lets Isthmus decide once, and the servers answer.
func (m *model) act(w *world) bool {
	if w.seenSource.generation == 0 || !w.listed {
		return false
	}
	switch d := m.decide(w); d.action {
	case Create:
		if w.twin.uid == 0 {
			w.born++
			w.twin.uid = w.born
			m.write(&w.twin, write{apply: d.apply})
		}
		w.seenTwin = w.twin
	case Apply:
		if w.seenTwin == w.twin { // else it is stale
			m.write(&w.twin, write{apply: d.apply})
			w.seenTwin = w.twin
		}
	case ReturnStatus, ClearStatus:
		if before := w.source.status.observed; d.action == ReturnStatus && d.status.observed < min(before, w.seenSource.generation-1) {
			m.t.Fatalf("observed %d became %d at generation %d", before, d.status.observed, w.seenSource.generation)
		}
		w.source.status = d.status
		w.seenSource = w.source // the answer holds all of it
	}
	return true
}

// decide asks for a decision about what Isthmus sees.
func (m *model) decide(w *world) decided {
	key := decisionKey{w.seenSource, w.seenTwin, w.refusing}
	if d, ok := m.decided[key]; ok {
		return d
	}
	scene := newScene(m.t)
	scene.Rules, scene.Source, scene.Twin = []*Rule{m.rule}, m.sourceObject(w.seenSource), m.twinObject(w.seenTwin)
	if w.refusing {
		scene.Memory.FaultHash, scene.Memory.RetryAt = wanted(&scene.Input).hash, noon.Add(time.Hour)
	}
	d := Decide(scene.Input)
	made := decided{action: d.Action, why: strings.Join(d.Reasons, "; ")}
	switch d.Action {
	case Create, Apply:
		obj := (&unstructured.Unstructured{Object: d.Body}).DeepCopy()
		obj.SetUID("")
		obj.SetResourceVersion("")
		encoded, err := obj.MarshalJSON()
		if err != nil {
			m.t.Fatal(err)
		}
		made.apply = string(encoded)
	case ReturnStatus:
		made.status = m.readStatus(d.Status)
	case Nothing, ClearStatus:
	case Hold:
		if !w.refusing {
			m.t.Fatalf("held: %q", d.Reasons)
		}
	default:
		m.t.Fatalf("unexpected %s: %q", d.Action, d.Reasons)
	}
	m.decided[key] = made
	return made
}

func (m *model) sourceObject(s sourceState) *unstructured.Unstructured {
	source := object(m.t, blueWidget)
	source.SetGeneration(s.generation)
	source.SetLabels(map[string]string{"note": fmt.Sprint(s.label)})
	set(source, s.content, "spec", "replicas")
	m.setStatus(source, s.status)
	return source
}

func (m *model) twinObject(s twinState) *unstructured.Unstructured {
	if s.uid == 0 {
		return nil
	}
	twin := m.bodies[s.body].object.DeepCopy()
	twin.SetUID(types.UID(fmt.Sprint("uid-twin-", s.uid)))
	twin.SetGeneration(s.generation)
	m.setStatus(twin, s.status)
	return twin
}

// setStatus writes a status with the observed generation in two places.
func (m *model) setStatus(obj *unstructured.Unstructured, s statusState) {
	if s.saw == 0 {
		return
	}
	var v any = s.observed
	if m.text {
		v = fmt.Sprint(s.observed)
	}
	obj.Object["status"] = map[string]any{
		"saw": s.saw, observedGeneration: v, conditionsField: []any{map[string]any{"type": "Ready", observedGeneration: v}},
	}
}

func (m *model) readStatus(status any) statusState {
	object := asObject(status)
	observed, _, ok := asGeneration(object[observedGeneration])
	list, _ := object[conditionsField].([]any)
	saw, isNumber := object["saw"].(int64)
	if !ok || !isNumber || len(list) != 1 || asObject(list[0])[observedGeneration] != object[observedGeneration] {
		m.t.Fatalf("status %v", status)
	}
	return statusState{observed, saw}
}

// check: the source says that its present spec was seen only if the controller did see it.
func (w *world) check() error {
	switch s := w.source; {
	case s.status.observed > s.generation:
		return fmt.Errorf("observed %d, beyond generation %d", s.status.observed, s.generation)
	case s.status.saw != 0 && s.status.observed == s.generation && s.status.saw != s.content:
		return fmt.Errorf("observed generation %d, whose content is %d, but the controller saw %d", s.generation, s.content, s.status.saw)
	}
	return nil
}

// rest lets everything come to rest, and checks that the source then tells the truth, and that nothing is written.
func (m *model) rest(w world) error {
	w.refusing = false
	w.seenSource, w.seenTwin, w.listed = w.source, w.twin, true
	if m.rests[w] {
		return nil
	}
	start := w
	for range 4 {
		for range 6 {
			w.seenSource, w.seenTwin = w.source, w.twin
			m.act(&w)
			if err := w.check(); err != nil {
				return err
			}
		}
		w.read = w.twin
		w.twin.status = statusState{w.read.generation, m.bodies[w.read.body].content}
	}
	w.seenSource, w.seenTwin = w.source, w.twin
	for range 2 {
		m.act(&w)
	}
	if d := m.decide(&w); d.action != Nothing {
		return fmt.Errorf("not at rest: %s, %s", d.action, d.why)
	}
	if s := w.source; s.status != (statusState{s.generation, s.content}) {
		return fmt.Errorf("at rest at generation %d with content %d, status %+v", s.generation, s.content, s.status)
	}
	m.rests[start] = true
	return nil
}

func TestT3_AllInterleavings(t *testing.T) {
	m := newModel(t)
	inStep := newWorld()
	for _, i := range []int{3, 4, 5, 7, 8, 4, 5} {
		if !steps[i].take(m, &inStep) {
			t.Fatal(steps[i].name)
		}
	}
	if inStep.source.status.observed != 1 {
		t.Fatalf("not in step: %+v", inStep)
	}
	for _, start := range []struct {
		name  string
		world world
	}{{"from the start", newWorld()}, {"in step", inStep}} {
		t.Run(start.name, func(t *testing.T) { interleave(t, m, start.world) })
	}
}

// mostSteps is how long the histories are of which all interleavings are tried.
const mostSteps = 7

// interleave tries all sequences of steps. Those that lead to one world are followed together, and counted each.
func interleave(t *testing.T, m *model, start world) {
	m.t = t
	before := map[world][]string{start: nil} // with one history that leads there
	counts := map[world]uint64{start: 1}
	total, states := uint64(0), 1
	for range mostSteps {
		nextBefore, nextCounts := map[world][]string{}, map[world]uint64{}
		for w, history := range before {
			for _, s := range steps {
				next := w
				if !s.take(m, &next) {
					continue
				}
				nextCounts[next] += counts[w]
				total += counts[w]
				if _, ok := nextBefore[next]; ok {
					continue
				}
				nextBefore[next] = append(history[:len(history):len(history)], s.name)
				err := next.check()
				if err == nil {
					err = m.rest(next)
				}
				if err != nil {
					t.Fatalf("%v, after:\n%s", err, strings.Join(nextBefore[next], "\n"))
				}
			}
		}
		before, counts = nextBefore, nextCounts
		states += len(before)
	}
	t.Logf("%d interleavings of at most %d steps, through %d states; %d bodies, %d decisions", total, mostSteps, states, len(m.bodies), len(m.decided))
}

func TestT3_NeverTrueBeforeTheControllerHasSeenIt(t *testing.T) {
	models := map[bool]*model{false: newModel(t), true: newModel(t)}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Bool().Draw(t, "decimal strings")
		m := models[text]
		m.t, m.text = t, text
		w := newWorld()
		actions := map[string]func(*rapid.T){"": func(t *rapid.T) {
			if err := w.check(); err != nil {
				t.Fatal(err)
			}
		}}
		for _, s := range steps {
			actions[s.name] = func(t *rapid.T) {
				if next := w; s.take(m, &next) {
					w = next
				} else {
					t.Skip()
				}
			}
		}
		actions["Isthmus acts again"] = actions["Isthmus acts"] // which is what it does most
		t.Repeat(actions)
		if err := m.rest(w); err != nil {
			t.Fatal(err)
		}
	})
}
