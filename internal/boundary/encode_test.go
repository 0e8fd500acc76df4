package boundary

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The encoding decides about the stamp's hash: if it were another one, an upgrade would write every twin again (F2).
func TestF2_EncodingIsThatOfTheStandardLibrary(t *testing.T) {
	for _, v := range []any{
		nil, true, "", "a", "a\"b\\c/d", "<&>\u2028\u2029", "tab\tnewline\nbell\x07del\x7f", "é世\U0001f600", "bad\xff\xc3", int64(math.MinInt64), 0.0, 1.5, 1e21, 1e-7, -3.0,
		map[string]any{}, map[string]any(nil), []any{}, []any(nil), map[string]any{"b": int64(1), "a": []any{nil, map[string]any{"z": "y", "": false}}, "<": "x"},
		map[string]string{"b": "c", "a": "d"}, []string{"x"}, 7, json.Number("12"),
	} {
		sameEncoding(t, v)
	}
	rapid.Check(t, func(t *rapid.T) { sameEncoding(t, jsonValue(t, 3)) })
	if _, err := Encode(map[string]any{"a": func() {}}); err == nil {
		t.Error("a function was encoded")
	}
}

func sameEncoding(t tester, v any) {
	t.Helper()
	want, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Encode(v)
	if err != nil || string(got) != string(want) {
		t.Fatalf("got %s, %v, want %s", got, err, want)
	}
}

// jsonValue draws a value as decoders make them.
func jsonValue(t *rapid.T, depth int) any {
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.String().Draw(t, "text")
	case 3:
		return rapid.Int64().Draw(t, "integer")
	case 4:
		return rapid.Float64Range(-1e30, 1e30).Draw(t, "number")
	case 5:
		list := make([]any, rapid.IntRange(0, 4).Draw(t, "items"))
		for i := range list {
			list[i] = jsonValue(t, depth-1)
		}
		return list
	}
	m := map[string]any{}
	for range rapid.IntRange(0, 5).Draw(t, "fields") {
		m[rapid.String().Draw(t, "key")] = jsonValue(t, depth-1)
	}
	return m
}
