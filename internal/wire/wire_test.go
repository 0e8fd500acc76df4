package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
)

// values draws what JSON may hold.
func values(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.String().AsAny(), rapid.Float64Range(-1e300, 1e300).AsAny(),
		rapid.SampledFrom([]any{json.Number("1.0"), json.Number("1e3"), json.Number("18446744073709551615"), "", "\u2028", []any{}, map[string]any{}}).AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.SliceOfN(values(depth-1), 0, 4).AsAny(),
			rapid.MapOfN(rapid.String(), values(depth-1), 0, 4).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// managedFields draws what may stand in place of managedFields.
func managedFields() *rapid.Generator[any] {
	entry := rapid.MapOfN(rapid.SampledFrom([]string{"manager", "fieldsV1", "time"}), values(2), 0, 3).AsAny()
	return rapid.OneOf(rapid.SliceOfN(rapid.OneOf(values(1), entry), 0, 3).AsAny(), values(1))
}

// An object is decoded as everything in Kubernetes decodes one, to the type of each number, and its head and fields are
// what the whole has.
func TestDecodedAsEverywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := map[string]any{"apiVersion": "example.io/v1", "kind": "Widget"}
		metadata := rapid.MapOfN(rapid.String(), values(2), 0, 4).Draw(t, "metadata")
		metadata["name"] = "x"
		if rapid.Bool().Draw(t, "managed") {
			metadata["managedFields"] = managedFields().Draw(t, "managedFields")
		}
		content["metadata"] = metadata
		for _, field := range []string{"spec", "status", "data"} {
			content[field] = values(3).Draw(t, field)
		}
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := utiljson.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		o, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, o.Decode().Object); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		if diff := cmp.Diff(want["status"], o.Field("status")); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		delete(want["metadata"].(map[string]any), "managedFields")
		head := map[string]any{"apiVersion": "example.io/v1", "kind": "Widget", "metadata": want["metadata"]}
		if diff := cmp.Diff(head, o.Head.Object); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

// Of managedFields the head has who wrote, and what they own of the metadata.
func TestHeadOfManagedFields(t *testing.T) {
	o, err := Parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	if o.GetManagedFields() != nil {
		t.Error("the head has managedFields")
	}
	owners := o.Owners()
	for i, entry := range owners.GetManagedFields() {
		owned := entry.FieldsV1.GetRawString()
		if strings.Contains(owned, "f:spec") || strings.Contains(owned, "f:status") || strings.Contains(owned, "f:isthmus.dev/source-uid") != (i == 0) {
			t.Errorf("%s owns %s", entry.Manager, owned)
		}
	}
	if len(owners.GetManagedFields()) != 2 || owners.GetManagedFields()[0].Manager != "isthmus" || owners.GetUID() == "" {
		t.Errorf("the head is %v", owners.Object)
	}
}

// Slim, an object says who wrote it, and is the same otherwise.
func TestSlim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := map[string]any{"kind": "Widget", "metadata": map[string]any{"name": "x", "managedFields": managedFields().Draw(t, "managedFields"), "labels": values(1).Draw(t, "labels")}, "spec": values(2).Draw(t, "spec")}
		text, err := json.MarshalIndent(content, "", rapid.SampledFrom([]string{"", " "}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		o, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		strip := func(content map[string]any) (owned []any) {
			list, _ := content["metadata"].(map[string]any)["managedFields"].([]any)
			for _, entry := range list {
				if entry, ok := entry.(map[string]any); ok {
					if fields, ok := entry["fieldsV1"]; ok {
						owned = append(owned, fields)
						delete(entry, "fieldsV1")
					}
				}
			}
			return owned
		}
		want, got := o.Decode().Object, Decode(o.Slim()).Object
		strip(want)
		for _, fields := range strip(got) {
			if diff := cmp.Diff(map[string]any{}, fields); diff != "" {
				t.Fatalf("what an entry owns is left: %s", diff)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

func TestWhatIsNoObject(t *testing.T) {
	for _, text := range []string{``, `7`, `[]`, `{"metadata":{}`, `{"metadata":{}} {}`, `{"metadata":7}`, `{"a":1,}`, `{"spec":{"a":tru}}`, `{"spec":1e}`} {
		if o, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q was taken for an object: %v", text, o.Head.Object)
		}
	}
	if o, err := Parse([]byte(`{"metadata":{"name":"x"},"spec":{"huge":1e999,"tiny":-1e999}}`)); err != nil {
		t.Error(err)
	} else if huge := o.Field("spec"); fmt.Sprint(huge) != "map[huge:1.7976931348623157e+308 tiny:-1.7976931348623157e+308]" {
		t.Errorf("numbers out of range are %v", huge)
	}
	var none *Object
	if none.Decode() != nil {
		t.Error("nothing was decoded to something")
	}
}

func TestAnswers(t *testing.T) {
	decode := func(text string) any {
		t.Helper()
		out, _, err := codec{}.Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if o, ok := decode(`{"kind":"Widget","apiVersion":"v1","metadata":{"name":"x"},"spec":{"a":1}}`).(*Object); !ok || o.GetName() != "x" || fmt.Sprint(o.Decode().Object["spec"]) != "map[a:1]" {
		t.Errorf("an object is %v", o)
	}
	if s, ok := decode(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`).(*metav1.Status); !ok || s.Reason != metav1.StatusReasonConflict {
		t.Errorf("a status is %v", s)
	}
	if _, _, err := (codec{}).Decode([]byte(`{"metadata":{}}`), nil, nil); err == nil {
		t.Error("an answer without a kind was taken for something")
	}
}

// A list tells its items in their order, wherever its own kind stands, and how it was cut.
func TestLists(t *testing.T) {
	items := `[{"metadata":{"name":"x"},"spec":{"a":1}}, { } ,{"kind":"Gadget","apiVersion":"v1","metadata":{"name":"y"}},{"metadata":{"name":"z"}}]`
	kind, metadata := `"kind":"WidgetList","apiVersion":"example.io/v1"`, `"metadata":{"resourceVersion":"9","remainingItemCount":7}`
	want := []string{"example.io/v1, Kind=Widget x map[a:1]", "example.io/v1, Kind=Widget  <nil>", "/v1, Kind=Gadget y <nil>", "example.io/v1, Kind=Widget z <nil>"}
	cut := errors.New("connection lost")
	for _, test := range []struct {
		name, text string
		after      error
		items      []string
		want       error
	}{
		{"kind first", "{" + kind + "," + metadata + `,"items":` + items + "}", io.EOF, want, nil},
		{"kind last", `{"items":` + items + "," + metadata + "," + kind + "}", io.EOF, want, nil},
		{"kind in two parts", `{"kind":"WidgetList","items":` + items + "," + metadata + `,"apiVersion":"example.io/v1"}`, io.EOF, want, nil},
		{"none", "{" + kind + "," + metadata + `,"items":null,"other":[1]}`, io.EOF, nil, nil},
		{"ended within", "{" + kind + `,"items":` + items, io.EOF, want, io.ErrUnexpectedEOF},
		{"cut within", "{" + kind + `,"items":` + items, cut, want, cut},
		{"empty", "", io.EOF, nil, io.ErrUnexpectedEOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			stream := io.MultiReader(iotest.OneByteReader(strings.NewReader(test.text)), iotest.ErrReader(test.after))
			var objects []*Object
			of, err := readList(io.NopCloser(stream), func(o *Object) error {
				objects = append(objects, o)
				return nil
			})
			// What was read does not change when the memory that it was read into is used again.
			var got []string
			for _, o := range objects {
				whole := o.Decode()
				if diff := cmp.Diff(whole.GroupVersionKind(), o.Head.GroupVersionKind()); diff != "" {
					t.Errorf("the head of an item is not that of the whole: %s", diff)
				}
				got = append(got, fmt.Sprintf("%s %s %v", whole.GroupVersionKind(), whole.GetName(), whole.Object["spec"]))
			}
			if diff := cmp.Diff(test.items, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if err != test.want || err == nil && of.ResourceVersion != "9" {
				t.Errorf("it ends with %v, expected %v, and says %v", err, test.want, of)
			}
		})
	}
	for _, text := range []string{`{"kind":"Widget","items":[]}`, `{"kind":"WidgetList","items":[7]}`, `{"kind":"WidgetList","items":[{]}`, `[]`} {
		if _, err := readList(io.NopCloser(strings.NewReader(text)), func(*Object) error { return nil }); err == nil {
			t.Errorf("%s was taken for a list", text)
		}
	}
	full := errors.New("full")
	if _, err := readList(io.NopCloser(strings.NewReader("{"+kind+`,"items":`+items+"}")), func(*Object) error { return full }); !errors.Is(err, full) {
		t.Errorf("what each says is lost: %v", err)
	}
}

// A watch tells its events whatever pieces they come in, and how it ended.
func TestStreams(t *testing.T) {
	long := strings.Repeat("long ", 5000)
	events := `{"type":"ADDED","object":{"kind":"Widget","apiVersion":"v1","metadata":{"name":"x"},"data":"` + long + `"}}
{"type":"MODIFIED","object":{"kind":"Widget","apiVersion":"v1","metadata":{"name":"y"}}}{"object":{"kind":"Widget","apiVersion":"v1","metadata":{"name":"z","resourceVersion":"8"}},"type":"BOOKMARK"}
{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"}}
`
	cut := errors.New("connection lost")
	for _, test := range []struct {
		name  string
		text  string
		after error
		want  error
	}{
		{"whole", events, io.EOF, io.EOF},
		{"cut between events", events, cut, cut},
		{"ended within an event", events + `{"type":"ADD`, io.EOF, io.ErrUnexpectedEOF},
		{"cut within an event", events + `{"type":"ADD`, cut, cut},
	} {
		t.Run(test.name, func(t *testing.T) {
			stream := io.MultiReader(iotest.OneByteReader(strings.NewReader(test.text)), iotest.ErrReader(test.after))
			d := newEvents(io.NopCloser(stream))
			var first *Object
			for _, want := range []struct {
				kind watch.EventType
				name string
			}{{watch.Added, "x"}, {watch.Modified, "y"}, {watch.Bookmark, "z"}} {
				kind, object, err := d.Decode()
				if err != nil {
					t.Fatal(err)
				}
				if o := object.(*Object); kind != want.kind || o.GetName() != want.name || o.GetName() == "x" && o.Field("data") != long {
					t.Errorf("%s %s, expected %v", kind, o.GetName(), want)
				} else if first == nil {
					first = o
				}
			}
			if first.Field("data") != long {
				t.Error("an object changed when the memory that it was read into was used again")
			}
			if kind, object, err := d.Decode(); err != nil || kind != watch.Error || object.(*metav1.Status).Code != 410 {
				t.Errorf("%s %v %v", kind, object, err)
			}
			if _, _, err := d.Decode(); err != test.want {
				t.Errorf("it ends with %v, expected %v", err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"x","managedFields":[{"fieldsV1":{"f:metadata":{}}}]},"spec":{"a":[1,2.5,"x",null,true]}}`))
	f.Add(sample)
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := Parse(bytes.Clone(text))
		if err != nil {
			return
		}
		// Whatever was taken can be decoded.
		if whole := o.Decode(); whole == nil {
			t.Error("nothing came of it")
		}
	})
}
