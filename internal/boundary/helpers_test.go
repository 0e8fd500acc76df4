package boundary

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

var (
	west      = Identity{Cluster: "west", Instance: "main", Home: "west", ClusterUID: "uid-west"}
	widgetGVK = schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}
	noon      = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
)

// tester is what testing and rapid have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// object reads an object from YAML, with the number types of a real decoder.
func object(t tester, text string) *unstructured.Unstructured {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return fromJSON(t, encoded)
}

func fromJSON(t tester, encoded []byte) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(encoded); err != nil {
		t.Fatalf("%v in:\n%s", err, encoded)
	}
	return obj
}

// value reads any value from YAML.
func value(t tester, text string) any {
	t.Helper()
	indented := "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
	return object(t, "apiVersion: v1\nkind: X\nvalue:\n"+indented).Object["value"]
}

// widgetRule selects all widgets and returns their status.
func widgetRule(change ...func(*Rule)) *Rule {
	r := &Rule{
		Name: "widgets", Kind: widgetGVK, Direction: ToRemote, Policy: PolicyAll, Selector: labels.Everything(),
		ReturnStatus: true, OnRemoval: RemovalDelete, Workers: 1,
	}
	for _, c := range change {
		c(r)
	}
	return r
}

const blueWidget = `
apiVersion: example.io/v1
kind: Widget
metadata:
  name: blue
  namespace: shop
  uid: uid-blue
  resourceVersion: "77"
  generation: 3
  labels: {color: blue}
  annotations: {note: hello}
spec:
  replicas: 2
  image: nginx
`

// scene is a source in a flow, and what is at its twin's place.
type scene struct {
	t tester
	Input
}

// newScene is a flow with one rule and one source, blue, without a twin.
func newScene(t tester, change ...func(*Input)) *scene {
	s := &scene{t, Input{
		Identity: west, Rules: []*Rule{widgetRule()}, Naming: SameName{},
		Key: types.NamespacedName{Namespace: "shop", Name: "blue"}, Place: types.NamespacedName{Namespace: "shop", Name: "blue"},
		Source: object(t, blueWidget), Evidence: Observed, Confirmed: true, Now: noon,
	}}
	for _, c := range change {
		c(&s.Input)
	}
	return s
}

// crossed gives the scene the twin that a server makes of the present source, then applies the changes.
func (s *scene) crossed(change ...func(*Input)) *scene {
	s.t.Helper()
	d := Decide(s.Input)
	if d.Action != Create {
		s.t.Fatalf("crossed: %s, %q", d.Action, d.Reasons)
	}
	server := newServer(s.t, widgetTypes(s.t), widgetGVK)
	server.apply(d.Body, FieldManager)
	s.Twin = server.twin()
	for _, c := range change {
		c(&s.Input)
	}
	return s
}

func noSource(in *Input)  { in.Source = nil }
func inferred(in *Input)  { in.Evidence = Inferred }
func paused(in *Input)    { in.Guard = Guard{Paused: true, Deletes: 6, Twins: 10} }
func unproven(in *Input)  { in.Confirmed = false }
func noRules(in *Input)   { in.Rules = nil }
func newUID(in *Input)    { in.Source.SetUID("uid-again") }
func unmatched(in *Input) { in.Rules[0].Selector = labels.SelectorFromSet(labels.Set{"color": "red"}) }
func dyingSource(in *Input) {
	set(in.Source, "2030-01-01T00:00:00Z", "metadata", "deletionTimestamp")
}
func dyingTwin(in *Input) { set(in.Twin, "2030-01-01T00:00:00Z", "metadata", "deletionTimestamp") }
func foreignTwin(in *Input) {
	unstructured.RemoveNestedField(in.Twin.Object, "metadata", "annotations")
}
func removed(p RemovalPolicy) func(*Input) {
	return func(in *Input) {
		in.Rules, in.Removed = nil, []RemovedRule{{Name: "widgets", OnRemoval: p}}
	}
}
func sourceStatus(t tester, text string) func(*Input) {
	return func(in *Input) {
		in.Source.Object["status"] = value(t, text)
		writers(west.StatusManager())(in)
	}
}

// writers are the managers of the source's status.
func writers(managers ...string) func(*Input) {
	return func(in *Input) {
		var entries []any
		for i, manager := range managers {
			entries = append(entries, map[string]any{"manager": manager, "operation": "Update", "subresource": "status",
				"time": noon.Add(time.Duration(i) * time.Second).Format(time.RFC3339), "fieldsV1": map[string]any{"f:status": map[string]any{}}})
		}
		set(in.Source, entries, "metadata", "managedFields")
	}
}
func twinStatus(t tester, text string) func(*Input) {
	return func(in *Input) { in.Twin.Object["status"] = value(t, text) }
}

func set(obj *unstructured.Unstructured, value any, fields ...string) {
	if err := unstructured.SetNestedField(obj.Object, value, fields...); err != nil {
		panic(err)
	}
}

// server keeps one object as an API server does: managedFields come from the real field manager.
type server struct {
	t          tester
	fields     managedfieldstest.TestFieldManager
	generation int64
	version    int
	status     any
}

func newServer(t tester, converter managedfields.TypeConverter, gvk schema.GroupVersionKind) *server {
	return &server{t: t, fields: managedfieldstest.NewTestFieldManager(converter, gvk), version: 100}
}

// apply is server-side apply with force.
func (s *server) apply(body map[string]any, manager string) {
	s.t.Helper()
	if err := s.tryApply(body, manager, true); err != nil {
		s.t.Fatalf("apply as %s: %v", manager, err)
	}
}

func (s *server) tryApply(body map[string]any, manager string, force bool) error {
	obj := (&unstructured.Unstructured{Object: body}).DeepCopy()
	obj.SetUID("")
	obj.SetResourceVersion("")
	before := s.fields.Live()
	if err := s.fields.Apply(obj, manager, force); err != nil {
		return err
	}
	s.changed(before.(*unstructured.Unstructured))
	return nil
}

// update changes the object as another manager does.
func (s *server) update(manager string, change func(*unstructured.Unstructured)) {
	s.t.Helper()
	before := s.fields.Live().(*unstructured.Unstructured)
	after := before.DeepCopy()
	change(after)
	if err := s.fields.Update(after, manager); err != nil {
		s.t.Fatalf("update as %s: %v", manager, err)
	}
	s.changed(before)
}

func (s *server) changed(before *unstructured.Unstructured) {
	s.version++
	if !cmp.Equal(before.Object["spec"], s.fields.Live().(*unstructured.Unstructured).Object["spec"]) || s.generation == 0 {
		s.generation++
	}
}

func (s *server) twin() *unstructured.Unstructured {
	encoded, err := s.fields.Live().(*unstructured.Unstructured).MarshalJSON()
	if err != nil {
		s.t.Fatal(err)
	}
	twin := fromJSON(s.t, encoded)
	twin.SetUID("uid-twin")
	twin.SetResourceVersion(strconv.Itoa(s.version))
	twin.SetGeneration(s.generation)
	if s.status != nil {
		twin.Object["status"] = s.status
	}
	// The field manager alone fills in no defaults.
	fill := func(list, field string, value any) {
		items, _ := asObject(twin.Object["spec"])[list].([]any)
		for _, item := range items {
			if _, ok := asObject(item)[field]; !ok {
				asObject(item)[field] = value
			}
		}
	}
	fill("ports", "protocol", "TCP")
	fill("pairs", "a", int64(1))
	fill("pairs", "b", int64(9))
	return twin
}

// widgetTypes is the type converter that a server has of a kind with one field for each way to merge.
func widgetTypes(t tester) managedfields.TypeConverter {
	t.Helper()
	converter, err := widgetConverter()
	if err != nil {
		t.Fatal(err)
	}
	return converter
}

var widgetConverter = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	definitions := map[string]*spec.Schema{}
	if err := yaml.Unmarshal([]byte(widgetDefinitions), &definitions); err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(definitions, false)
})

const widgetDefinitions = `
meta:
  type: object
  properties:
    name: {type: string}
    namespace: {type: string}
    uid: {type: string}
    resourceVersion: {type: string}
    generation: {type: integer}
    labels: {type: object, additionalProperties: {type: string}}
    annotations: {type: object, additionalProperties: {type: string}}
    finalizers: {type: array, items: {type: string}, x-kubernetes-list-type: set}
    managedFields: {type: array, items: {type: object}, x-kubernetes-list-type: atomic}
kind:
  type: object
  x-kubernetes-group-version-kind: [{group: example.io, version: v1, kind: Widget}]
  properties:
    apiVersion: {type: string}
    kind: {type: string}
    metadata: {$ref: "#/definitions/meta"}
    spec: {$ref: "#/definitions/spec"}
    data: {type: object, additionalProperties: {type: string}}
    immutable: {type: boolean}
    type: {type: string}
    extras: {type: array, items: {type: string}, x-kubernetes-list-type: atomic}
    any: {type: object, x-kubernetes-preserve-unknown-fields: true}
spec:
  type: object
  properties:
    replicas: {type: integer}
    image: {type: string}
    flag: {type: string, nullable: true}
    selector: {type: object, additionalProperties: {type: string}, x-kubernetes-map-type: atomic}
    params: {type: object, additionalProperties: {type: string}}
    tiers:
      type: object
      additionalProperties:
        type: object
        properties: {size: {type: integer}, zone: {type: string}, names: {type: array, items: {type: string}, x-kubernetes-list-type: set}}
    ports:
      type: array
      x-kubernetes-list-type: map
      x-kubernetes-list-map-keys: [port, protocol]
      items:
        type: object
        required: [port]
        properties:
          name: {type: string}
          port: {type: integer}
          protocol: {type: string, default: TCP}
          targetPort: {type: integer}
          nodePort: {type: integer}
          weights: {type: object, additionalProperties: {type: integer}}
    pairs:
      type: array
      x-kubernetes-list-type: map
      x-kubernetes-list-map-keys: [a, b]
      items: {type: object, properties: {a: {type: integer, default: 1}, b: {type: integer, default: 9}, v: {type: string}}}
    tags: {type: array, items: {type: string}, x-kubernetes-list-type: set}
    args: {type: array, items: {type: string}, x-kubernetes-list-type: atomic}
    nested:
      type: object
      properties:
        inner:
          type: object
          properties:
            deep: {type: object, properties: {x: {type: string}}}
            list: {type: array, items: {type: string}, x-kubernetes-list-type: set}
`

// expect is the part of a decision that most tables look at.
type expect struct {
	action Action
	until  Wait
	event  string // part of the first Event's message; empty: there is no Event
}

func (e expect) check(t *testing.T, d Decision) {
	t.Helper()
	if d.Action != e.action || d.Until != e.until {
		t.Errorf("got %s until %q, want %s until %q; reasons: %q", d.Action, d.Until, e.action, e.until, d.Reasons)
	}
	switch {
	case e.event == "" && len(d.Events) > 0:
		t.Errorf("unexpected Events %v", d.Events)
	case e.event != "" && (len(d.Events) != 1 || !strings.Contains(d.Events[0].Message, e.event)):
		t.Errorf("got Events %v, want one with %q", d.Events, e.event)
	}
	if len(d.Reasons) == 0 {
		t.Error("no reasons are given")
	}
}

// wanted is what the first rule makes of the source.
func wanted(in *Input) desired {
	d, err := desire(in, in.Rules[0])
	if err != nil {
		panic(err)
	}
	return d
}

// placeOf is where the source's twin belongs under SameName.
func placeOf(in Input) (types.NamespacedName, bool) {
	source := &unstructured.Unstructured{}
	source.SetNamespace(in.Key.Namespace)
	source.SetName(in.Key.Name)
	place, err := in.Naming.Place(nil, source)
	return place, err == nil && in.Naming.Admits(nil, in.Key.Namespace)
}
