package boundary

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
)

// Short ways to write schemas.
func objectOf(fields ...any) *Schema {
	s := &Schema{Type: "object", Properties: map[string]*Schema{}}
	for i := 0; i < len(fields); i += 2 {
		s.Properties[fields[i].(string)], _ = fields[i+1].(*Schema)
	}
	return s
}
func schemaList(items *Schema) *Schema { return &Schema{Type: "array", Items: items} }
func mapOf(values *Schema) *Schema     { return &Schema{Type: "object", Additional: values} }
func typed(name string) *Schema        { return &Schema{Type: name} }
func withSpec(fields ...any) *Schema   { return objectOf("spec", objectOf(fields...)) }
func preserve(s *Schema) *Schema       { s.PreserveUnknown = true; return s }
func embedded(s *Schema) *Schema       { s.EmbeddedResource = true; return s }

var text, integer, number, intOrString = typed("string"), typed("integer"), typed("number"), &Schema{IntOrString: true}

func TestO7_WhatTheOtherSideDoesNotDeclare(t *testing.T) {
	widget := schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}
	sync := Rule{Kind: widget}
	owned := Rule{Kind: widget, RemoteOwned: []Path{MustPath("spec.mine"), MustPath("spec.list[*].mine"), MustPath("spec.deep.mine")}}
	service := Rule{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Service"}}
	recursive := func(fields ...any) *Schema {
		s := objectOf(fields...)
		s.Properties["child"] = s
		s.Properties["children"] = schemaList(s)
		return s
	}
	for _, c := range []struct {
		name        string
		rule        Rule
		here, there *Schema
		want        string
	}{
		{"the same", sync, withSpec("a", text), withSpec("a", text), ""},
		{"unknown here", sync, nil, withSpec("a", text), ""},
		{"unknown there", sync, withSpec("a", text), nil, ""},
		{"more there", sync, withSpec("a", text), withSpec("a", text, "b", text), ""},
		{"more here", sync, withSpec("a", text, "b", text, "c", objectOf("d", text)), withSpec("a", text), "spec.b, spec.c"},
		{"a whole branch", sync, objectOf("spec", nil, "more", text), withSpec(), "more"},
		{"in depth", sync, withSpec("a", objectOf("b", objectOf("c", text, "d", text))), withSpec("a", objectOf("b", objectOf("c", text))), "spec.a.b.d"},
		{"items", sync, withSpec("l", schemaList(objectOf("a", text, "b", text))), withSpec("l", schemaList(objectOf("a", text))), "spec.l[*].b"},
		{"values of a map", sync, withSpec("m", mapOf(objectOf("a", text, "b", text))), withSpec("m", mapOf(objectOf("a", text))), "spec.m[*].b"},
		{"a map and fields", sync, withSpec("m", mapOf(text)), withSpec("m", objectOf("a", text)), "spec.m[*]"},
		{"fields and a map", sync, withSpec("m", objectOf("a", text, "b", integer)), withSpec("m", mapOf(text)), "spec.m.b (integer here, string there)"},
		{"a map that is pruned", sync, withSpec("m", mapOf(text)), withSpec("m", typed("object")), "spec.m[*]"},
		{"free there", sync, withSpec("m", objectOf("a", text)), withSpec("m", preserve(typed("object"))), ""},
		{"free, with a field of another type", sync, withSpec("m", objectOf("a", text, "b", text)), withSpec("m", preserve(objectOf("a", integer))), "spec.m.a (string here, integer there)"},
		{"free here", sync, withSpec("m", preserve(objectOf("a", text))), withSpec("m", objectOf("b", text)), "spec.m.a"},
		{"anything here", sync, withSpec("m", &Schema{}), withSpec("m", text), ""},
		{"anything there", sync, withSpec("m", objectOf("a", text)), withSpec("m", &Schema{}), ""},
		{"nothing said there", sync, withSpec("m", objectOf("a", text)), objectOf("spec", objectOf("m", nil)), ""},
		{"another type", sync, withSpec("a", text), withSpec("a", integer), "spec.a (string here, integer there)"},
		{"an object and a list", sync, withSpec("a", objectOf("b", text)), withSpec("a", schemaList(text)), "spec.a (object here, array there)"},
		{"a list of other items", sync, withSpec("a", schemaList(text)), withSpec("a", schemaList(integer)), "spec.a[*] (string here, integer there)"},
		{"whole numbers are numbers", sync, withSpec("a", integer), withSpec("a", number), ""},
		{"numbers are not all whole", sync, withSpec("a", number), withSpec("a", integer), "spec.a (number here, integer there)"},
		{"to an integer or a string", sync, withSpec("a", integer, "b", text), withSpec("a", intOrString, "b", intOrString), ""},
		{"from an integer or a string", sync, withSpec("a", intOrString, "b", intOrString), withSpec("a", integer, "b", text), "spec.a (integer or string here, integer there), spec.b (integer or string here, string there)"},
		{"an embedded object", sync, withSpec("a", embedded(preserve(typed("object")))), withSpec("a", objectOf("spec", text)), "spec.a.apiVersion, spec.a.kind, spec.a.metadata"},
		{"an embedded object on both sides", sync, withSpec("a", embedded(objectOf("x", text))), withSpec("a", embedded(objectOf())), "spec.a.x"},
		{"recursive", sync, objectOf("spec", recursive("a", text, "b", text)), objectOf("spec", recursive("a", text)), "spec.b"},
		{"recursive and not", sync, objectOf("spec", recursive("a", text)), withSpec("a", text, "child", objectOf("a", text)), "spec.child.child, spec.child.children, spec.children"},
		{"metadata", sync, objectOf("metadata", objectOf("a", text), "apiVersion", text, "kind", text), objectOf(), ""},
		{"a status, which does not cross", sync, objectOf("status", objectOf("a", text)), objectOf(), ""},
		{"a mirror's, which does", Rule{Kind: widget, Mode: ModeMirror}, objectOf("status", objectOf("a", text)), objectOf("status", objectOf()), "status.a"},
		{"remote-owned", owned, withSpec("mine", text, "list", schemaList(objectOf("mine", text, "b", text)), "deep", objectOf("mine", objectOf("a", text))),
			withSpec("list", schemaList(objectOf()), "deep", objectOf()), "spec.list[*].b"},
		{"around what is remote-owned", owned, withSpec("deep", objectOf("mine", text)), withSpec(), "spec.deep"},
		{"remote-owned by default", service, withSpec("healthCheckNodePort", integer, "ports", schemaList(objectOf("nodePort", integer, "port", integer))), withSpec("ports", schemaList(objectOf("port", integer))), ""},
	} {
		if have := GapsMessage(c.rule.Gaps(c.here, c.there)); have != c.want {
			t.Errorf("%s: %q, expected %q", c.name, have, c.want)
		}
	}
	many := withSpec()
	for range 3 {
		for _, name := range strings.Fields("a b c d e f g h i j k l m n o p q r s t u v w x y z") {
			many.Properties["spec"].Properties[name+strings.Repeat(name, len(many.Properties["spec"].Properties)%7)] = text
		}
	}
	if have := GapsMessage(sync.Gaps(many, withSpec())); strings.Count(have, ",") != 20 || !strings.HasSuffix(have, " more") {
		t.Errorf("many: %s", have)
	}
}

// Types that are shared and nested a lot are compared once each.
func TestO7_SchemasThatBranchAndMeetAreComparedQuickly(t *testing.T) {
	deep := func(leaf *Schema) *Schema {
		s := leaf
		for range 200 {
			s = objectOf("a", s, "b", s, "c", schemaList(s))
		}
		return s
	}
	rule := Rule{}
	if gaps := rule.Gaps(deep(text), deep(integer)); len(gaps) != mostGaps {
		t.Errorf("%d gaps", len(gaps))
	}
	if gaps := rule.Gaps(deep(text), deep(text)); gaps != nil {
		t.Errorf("%d gaps", len(gaps))
	}
}

// drawDeclared draws content that a schema declares.
func drawDeclared(t *rapid.T, s *Schema, depth int) any {
	if s == nil || depth == 0 {
		return "scalar"
	}
	switch {
	case s.IntOrString:
		return rapid.SampledFrom([]any{int64(1), "1"}).Draw(t, "value")
	case s.Type == "object":
		out := map[string]any{}
		for _, k := range s.fields() {
			if rapid.Bool().Draw(t, "present") {
				out[k] = drawDeclared(t, s.Properties[k], depth-1)
			}
		}
		if s.Additional != nil {
			for _, k := range rapid.SliceOfN(rapid.SampledFrom(junkKeys), 0, 3).Draw(t, "keys") {
				if _, own := s.Properties[k]; !own {
					out[k] = drawDeclared(t, s.Additional, depth-1)
				}
			}
		}
		return out
	case s.Type == "array":
		out := make([]any, rapid.IntRange(0, 2).Draw(t, "items"))
		for i := range out {
			out[i] = drawDeclared(t, s.Items, depth-1)
		}
		return out
	}
	return "scalar"
}

// reaches reports whether a path of an object is at or under a gap's, whose [*] also stands for any key of a map.
func reaches(gap, path Path) bool {
	return len(path) >= len(gap) && !slices.ContainsFunc(slices.Collect(func(yield func(bool) bool) {
		for i := range gap {
			if !yield(gap[i] == path[i] || gap[i].EachItem && path[i].Field != "") {
				return
			}
		}
	}), func(same bool) bool { return !same })
}

// What is left out of any object that the sources' side declares was told before.
func TestO7_NothingIsLeftOutThatWasNotTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		here, there := drawSchema(t, 5), drawSchema(t, 5)
		if here == nil || here.Type != "object" {
			return
		}
		if there != nil && rapid.Bool().Draw(t, "alike") { // mostly the same, so that they differ in depth too
			for k, s := range here.Properties {
				if there.Type == "object" && rapid.Bool().Draw(t, "shared") {
					there.Properties[k] = s
				}
			}
		}
		rule := Rule{}
		gaps := rule.Gaps(here, there)
		content := drawDeclared(t, here, 6).(map[string]any)
		delete(content, "status")
		for _, path := range there.Undeclared(content) {
			if here.Additional == nil && !slices.ContainsFunc(gaps, func(g Gap) bool { return reaches(g.Path, path) }) {
				t.Fatalf("%s is left out, and was not told: %v", path, gaps)
			}
		}
		again := rule.Gaps(here, there)
		if diff := cmp.Diff(gaps, again); diff != "" {
			t.Fatalf("told otherwise the second time: %s", diff)
		}
		if same := rule.Gaps(here, here); len(same) > 0 {
			t.Fatalf("gaps between a schema and itself: %v", same)
		}
	})
}

// witness makes an object that has something at a path of a schema.
func witness(s *Schema, path Path) any {
	if len(path) == 0 || s == nil {
		return "scalar"
	}
	switch step := path[0]; {
	case step.EachItem && s.Type == "array":
		return []any{witness(s.Items, path[1:])}
	case step.EachItem:
		return map[string]any{"another": witness(s.Additional, path[1:])}
	default:
		child := s.Properties[step.Field]
		return map[string]any{step.Field: witness(child, path[1:])}
	}
}

// For each field that is told of there is an object that loses it.
func TestO7_WhatIsToldIsLeftOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		here, there := drawSchema(t, 5), drawSchema(t, 5)
		rule := Rule{}
		for _, g := range rule.Gaps(here, there) {
			if g.Here != "" || here.Type != "object" {
				continue
			}
			object := witness(here, g.Path).(map[string]any)
			left := there.Undeclared(object)
			if !slices.ContainsFunc(left, func(p Path) bool { return reaches(g.Path, p) }) {
				t.Fatalf("%s is told of, but of %v only %v is left out", g.Path, object, left)
			}
		}
	})
}
