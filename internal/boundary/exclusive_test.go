package boundary

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

func exclusive(in *Input) { in.Rules[0].SpecOwnership = OwnershipExclusive }

// takeOut carries out a RemoveFields as a server does.
func takeOut(t tester, s *server, d Decision) {
	t.Helper()
	encoded, err := json.Marshal(d.Patch[2:]) // without the tests
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(encoded)
	if err != nil {
		t.Fatal(err)
	}
	s.update(FieldManager, func(o *unstructured.Unstructured) {
		before, _ := o.MarshalJSON()
		after, err := patch.Apply(before)
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		o.Object = fromJSON(t, after).Object
	})
}

func TestO4_ExclusiveTakesOutWhatOthersAdd(t *testing.T) {
	const source = `
apiVersion: example.io/v1
kind: Widget
metadata: {name: blue, namespace: shop, uid: uid-blue, generation: 3}
spec:
  image: nginx
  params: {a: x}
  ports: [{port: 80}, {port: 53, protocol: UDP}]
  tags: [b, d]
  nested: {inner: {}}
`
	for _, test := range []struct {
		name   string
		change string // a merge patch, as another manager
		remote []string
		want   []string // the places taken out, in order
	}{
		{name: "a field", change: `spec: {replicas: 2}`, want: []string{"/spec/replicas"}},
		{name: "a top-level field", change: `data: {k: v}`, want: []string{"/data"}},
		{name: "an entry of a map", change: `spec: {params: {b: two, c/d: z}}`, want: []string{"/spec/params/b", "/spec/params/c~1d"}},
		{name: "a whole map", change: `spec: {tiers: {one: {size: 1}}}`, want: []string{"/spec/tiers"}},
		{name: "something in an empty map of ours", change: `spec: {nested: {inner: {deep: {x: "1"}}}}`, want: []string{"/spec/nested/inner/deep"}},
		{name: "items of a set", change: `spec: {tags: [a, b, c, d, e]}`, want: []string{"/spec/tags/4", "/spec/tags/2", "/spec/tags/0"}},
		{name: "an item with keys, and a field of one of ours", change: `spec: {ports: [{port: 70, protocol: TCP, name: other}, {port: 80, protocol: TCP, nodePort: 30000}, {port: 53, protocol: UDP}, {port: 90, protocol: TCP}]}`,
			want: []string{"/spec/ports/3", "/spec/ports/1/nodePort", "/spec/ports/0"}},
		{name: "an atomic list", change: `spec: {args: [a]}`, want: []string{"/spec/args"}},
		{name: "a label and an annotation", change: `metadata: {labels: {theirs: x}, annotations: {theirs: x}}`},
		{name: "what belongs to the target side", change: `spec: {replicas: 2, tiers: {one: {size: 1}}, ports: [{port: 80, protocol: TCP, nodePort: 30000}, {port: 53, protocol: UDP}]}`,
			remote: []string{"spec.replicas", "spec.tiers", "spec.ports[*].nodePort"}},
		{name: "beside what belongs to the target side", change: `spec: {tiers: {one: {size: 1, zone: a}}}`, remote: []string{"spec.tiers.one.size"}, want: []string{"/spec/tiers/one/zone"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, exclusive, remoteOwns(test.remote...), func(in *Input) { in.Source = object(t, source); in.Rules[0].ReturnStatus = false })
			server := newServer(t, widgetTypes(t), widgetGVK)
			server.apply(Decide(s.Input).Body, FieldManager)
			clean := server.twin().Object["spec"]
			server.update("other", func(o *unstructured.Unstructured) {
				o.Object = mergePatch(o.Object, value(t, test.change)).(map[string]any)
			})
			s.Twin = server.twin()
			d := Decide(s.Input)
			if test.want == nil {
				expect{action: Nothing}.check(t, d)
				return
			}
			expect{action: RemoveFields, event: "(by other)"}.check(t, d)
			var got []string
			for _, op := range d.Patch[2:] {
				got = append(got, op["path"].(string))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if d.Patch[0]["value"] != "uid-twin" || d.Patch[1]["value"] != s.Twin.GetResourceVersion() {
				t.Errorf("bound to %v", d.Patch[:2])
			}
			takeOut(t, server, d)
			s.Twin, s.Memory.TakenOut = server.twin(), d.TakenOut
			expect{action: Nothing}.check(t, Decide(s.Input))
			if test.remote == nil {
				if diff := cmp.Diff(clean, s.Twin.Object["spec"]); diff != "" {
					t.Errorf("what is left (-want +got):\n%s", diff)
				}
			}

			server.update("other", func(o *unstructured.Unstructured) {
				o.Object = mergePatch(o.Object, value(t, test.change)).(map[string]any)
			})
			s.Twin = server.twin()
			d = Decide(s.Input)
			expect{action: Nothing, event: "came back"}.check(t, d)
			s.Memory.TakenOut = d.TakenOut
			if rivals := s.Memory.Rivals(); len(rivals) != 1 || !slices.Equal(rivals[0].Managers, []string{"other"}) {
				t.Errorf("rivals %v", rivals)
			}
			d = Decide(s.Input)
			expect{action: Nothing}.check(t, d) // told once
			if !strings.Contains(strings.Join(d.Reasons, " "), "came back") {
				t.Errorf("reasons %q", d.Reasons)
			}
			s.Twin.SetUID("uid-later") // another twin
			expect{action: RemoveFields, event: "(by other)"}.check(t, Decide(s.Input))
		})
	}
}

// mergePatch is a JSON merge patch without removals.
func mergePatch(v, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := extend(v)
	for k, p := range fields {
		out[k] = mergePatch(out[k], p)
	}
	return out
}

func TestO4_ARefusedRemovalWaits(t *testing.T) {
	s := changedBy(newScene(t, exclusive, func(in *Input) { unstructured.RemoveNestedField(in.Source.Object, "spec", "replicas") }), "hpa", scaled)
	twinStatus(t, `{ready: true}`)(&s.Input)
	d := Decide(s.Input)
	expect{action: RemoveFields, event: "spec.replicas (by hpa)"}.check(t, d)
	s.Memory.FaultHash, s.Memory.Fault, s.Memory.RetryAt = d.Hash, "immutable", noon.AddDate(0, 0, 1)
	expect{action: ReturnStatus}.check(t, Decide(s.Input))
	sourceStatus(t, `{ready: true}`)(&s.Input)
	expect{Hold, UntilRetry, ""}.check(t, Decide(s.Input))
	set(s.Source, "other", "spec", "image")
	expect{action: Apply}.check(t, Decide(s.Input))
}

// Whatever others make of a twin: a change is put back and what was added is taken out, by two writes at most, what is
// left is what was there at first, and in step.
func TestO4_ExclusiveHealsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := newScene(t, exclusive).Input
		in.Rules[0].ReturnStatus = false
		in.Source = drawSource(t, drawWidget(t))
		d := decideChecked(t, in)
		if d.Action != Create {
			t.Skip()
		}
		server := newServer(t, widgetTypes(t), widgetGVK)
		server.apply(d.Body, FieldManager)
		clean := server.twin().Object["spec"]
		for range rapid.IntRange(1, 3).Draw(t, "managers") {
			manager := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "manager")
			server.update(manager, func(o *unstructured.Unstructured) {
				o.Object["spec"] = mergePatch(o.Object["spec"], drawWidget(t)["spec"])
			})
		}
		for range 3 {
			in.Twin = server.twin()
			d = decideChecked(t, in)
			switch d.Action {
			case Apply:
				server.apply(d.Body, FieldManager)
			case RemoveFields:
				takeOut(t, server, d)
			case Nothing:
				if diff := cmp.Diff(prune(sortedItems(clean)), prune(sortedItems(in.Twin.Object["spec"]))); diff != "" {
					t.Fatalf("what is left (-want +got):\n%s", diff)
				}
				return
			default:
				t.Fatalf("%s, %q", d.Action, d.Reasons)
			}
			in.Memory.TakenOut, in.Memory.TwinFight = d.TakenOut, nil
		}
		t.Fatalf("not in step after three writes: %q", d.Reasons)
	})
}

// sortedItems sorts all lists: an apply may put items in another order.
func sortedItems(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, child := range v {
			out[k] = sortedItems(child)
		}
		return out
	case []any:
		var out []string
		for _, item := range v {
			encoded, _ := json.Marshal(sortedItems(item))
			out = append(out, string(encoded))
		}
		slices.Sort(out)
		sorted := []any{}
		for _, item := range out {
			sorted = append(sorted, item)
		}
		return sorted
	}
	return v
}
