//go:build linux

package main

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestPercentilesAndMedians(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for p, want := range map[float64]float64{1: 1, 50: 3, 80: 4, 99: 5, 100: 5} {
		if have := percentile(values, p); have != want {
			t.Errorf("p%g is %g, expected %g", p, have, want)
		}
	}
	if median(values) != 3 || median(values[:4]) != 3 || !math.IsNaN(median(nil)) || !math.IsNaN(percentile(nil, 50)) {
		t.Errorf("medians: %g %g %g", median(values), median(values[:4]), median(nil))
	}
}

func TestJudge(t *testing.T) {
	f := figure{name: "f", targets: []target{
		{unit: "objects/s", against: floor, limit: 0.9},
		{unit: "writes", atMost: true, limit: 0, counted: true},
	}}
	results := []result{
		// Of the rounds' ratios 0.5, 1 and 2 the middle one is judged, whatever the medians are.
		{"f", "a", floor, "objects/s", 100, 1}, {"f", "a", isthmus, "objects/s", 50, 1},
		{"f", "a", floor, "objects/s", 10, 2}, {"f", "a", isthmus, "objects/s", 10, 2},
		{"f", "a", floor, "objects/s", 20, 3}, {"f", "a", isthmus, "objects/s", 40, 3},
		{"f", "rest", isthmus, "writes", 1, 1},
		{"other", "a", isthmus, "objects/s", 9, 1},
	}
	rows := judge([]figure{f}, results, nil)
	if len(rows) != 2 {
		t.Fatalf("expected two rows, got %v", rows)
	}
	if r := rows[0]; r.Ratio == nil || *r.Ratio != 1 || r.Values[floor] != 20 || !*r.Reached || r.wrong() {
		t.Errorf("a ratio: %+v", r)
	}
	if r := rows[1]; r.Ratio != nil || *r.Reached || !r.wrong() {
		t.Errorf("a count that is wrong: %+v", r)
	}

	rows = judge([]figure{f}, nil, map[string]error{"f": errors.New("no machine")})
	if len(rows) != 2 || rows[0].wrong() || !rows[1].wrong() || rows[1].Failure != "no machine" {
		t.Errorf("what could not be measured: %+v", rows)
	}
	var table strings.Builder
	if err := printTable(&table, rows); err != nil || !strings.Contains(table.String(), "not reached: no machine") {
		t.Errorf("%v: %s", err, table.String())
	}
}

func TestObjectsFollowFromTheirNumber(t *testing.T) {
	for _, size := range []int{1 << 10, 20 << 10} {
		m := makeup{Namespace: "bench", Size: size, Seed: 1}
		a, b := m.object(7, 1), m.object(7, 1)
		if string(a) != string(b) || string(a) == string(m.object(8, 1)) || index(name(7)) != 7 {
			t.Errorf("object 7 is not the same each time, or another's")
		}
		if n := len(a); n < size*9/10 || n > size*11/10 {
			t.Errorf("an object of %d bytes, expected about %d", n, size)
		}
	}
}
