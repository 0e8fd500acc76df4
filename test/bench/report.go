//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
)

// target is what the values of isthmus must reach.
type target struct {
	// unit and cases say which values of the figure: those with this unit, in the cases that have this in their name.
	unit, cases string
	// against is the contender whose value isthmus' is divided by, in each round; empty: the value itself is judged.
	against contender
	// atMost: the limit is the highest that is good; otherwise the lowest.
	atMost bool
	limit  float64
	// counted: it is a count, which is the same on every machine; the run fails where it is not reached.
	counted bool
}

// String tells the limit.
func (t target) String() string {
	sign := "≥ "
	if t.atMost {
		sign = "≤ "
	}
	text := sign + number(t.limit)
	if t.against != "" {
		text += " × " + string(t.against)
	}
	return text
}

// reached reports whether a value, or ratio, is good.
func (t target) reached(v float64) bool {
	if t.atMost {
		return v <= t.limit // false for NaN
	}
	return v >= t.limit
}

// row is a line of the table: a case of a figure, and at most one target.
type row struct {
	Figure string `json:"figure"`
	Case   string `json:"case"`
	Unit   string `json:"unit"`
	// Values are the contenders' medians over the rounds.
	Values map[contender]float64 `json:"values,omitempty"`
	// Ratio is the median of the rounds' ratios where the target is one.
	Ratio   *float64 `json:"ratio,omitempty"`
	Target  string   `json:"target,omitempty"`
	Reached *bool    `json:"reached,omitempty"`
	Counted bool     `json:"counted,omitempty"`
	// Failure says why there are no values.
	Failure string `json:"failure,omitempty"`
}

// wrong reports whether the row makes the run fail.
func (r row) wrong() bool { return r.Counted && (r.Reached == nil || !*r.Reached) }

// judge makes the table: a row for each case and target, in the order in which they were measured. A figure that could
// not be measured, and a target for which there is no value, are rows too.
func judge(chosen []figure, results []result, failed map[string]error) (rows []row) {
	for _, f := range chosen {
		var order []row // its cases
		for _, r := range results {
			same := func(o row) bool { return o.Case == r.Case && o.Unit == r.Unit }
			if r.Figure == f.name && !slices.ContainsFunc(order, same) {
				order = append(order, row{Figure: f.name, Case: r.Case, Unit: r.Unit})
			}
		}
		used := make([]bool, len(f.targets))
		for _, o := range order {
			o.Values = medians(results, o)
			judged := false
			for i, t := range f.targets {
				if t.unit != o.Unit || !strings.Contains(o.Case, t.cases) {
					continue
				}
				if _, has := o.Values[isthmus]; !has {
					continue
				}
				judged, used[i] = true, true
				rows = append(rows, t.judge(o, results))
			}
			if !judged {
				rows = append(rows, o)
			}
		}
		failure := "it was not measured"
		if err := failed[f.name]; err != nil {
			failure = err.Error()
			if len(f.targets) == 0 {
				rows = append(rows, row{Figure: f.name, Failure: failure})
			}
		}
		for i, t := range f.targets {
			if !used[i] {
				not := false
				rows = append(rows, row{Figure: f.name, Case: t.cases, Unit: t.unit, Target: t.String(), Reached: &not, Counted: t.counted, Failure: failure})
			}
		}
	}
	return rows
}

// judge returns a row with the target's verdict.
func (t target) judge(o row, results []result) row {
	value := o.Values[isthmus]
	if t.against != "" {
		value = ratio(results, o, t.against)
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			o.Ratio = &value
		}
	}
	ok := t.reached(value)
	o.Target, o.Reached, o.Counted = t.String(), &ok, t.counted
	return o
}

// medians returns the contenders' medians over the rounds.
func medians(results []result, of row) map[contender]float64 {
	values := map[contender][]float64{}
	for _, r := range results {
		if of.has(r) {
			values[r.Contender] = append(values[r.Contender], r.Value)
		}
	}
	out := map[contender]float64{}
	for c, v := range values {
		out[c] = median(v)
	}
	return out
}

// ratio returns the median of the rounds' ratios of isthmus to another contender.
func ratio(results []result, of row, against contender) float64 {
	rounds := map[int]map[contender]float64{}
	for _, r := range results {
		if of.has(r) {
			if rounds[r.Round] == nil {
				rounds[r.Round] = map[contender]float64{}
			}
			rounds[r.Round][r.Contender] = r.Value
		}
	}
	var ratios []float64
	for _, values := range rounds {
		ours, has := values[isthmus]
		theirs, both := values[against]
		if has && both {
			ratios = append(ratios, ours/theirs)
		}
	}
	return median(ratios)
}

func (r row) has(v result) bool { return v.Figure == r.Figure && v.Case == r.Case && v.Unit == r.Unit }

// printTable prints the rows.
func printTable(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "figure\tcase\tunit\tfloor\tplain\tisthmus\tratio\ttarget\treached")
	for _, r := range rows {
		value := func(c contender) string {
			if v, has := r.Values[c]; has {
				return number(v)
			}
			return "-"
		}
		quotient, reached := "-", "-"
		if r.Ratio != nil {
			quotient = number(*r.Ratio)
		}
		switch {
		case r.Failure != "":
			reached = "not reached: " + strings.ReplaceAll(r.Failure, "\n", " ")
		case r.Reached != nil && *r.Reached:
			reached = "yes"
		case r.Reached != nil:
			reached = "not reached"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Figure, r.Case, r.Unit,
			value(floor), value(plain), value(isthmus), quotient, cmpOr(r.Target, "-"), reached)
	}
	return w.Flush()
}

func cmpOr(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// number formats a value with three significant digits.
func number(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// writeResults writes everything that was measured to a file.
func writeResults(o options, began time.Time, results []result, rows []row) error {
	file := struct {
		Date       time.Time `json:"date"`
		Seconds    float64   `json:"seconds"`
		Cores      int       `json:"cores"`
		Go         string    `json:"go"`
		Kubernetes string    `json:"kubernetes"`
		Rounds     int       `json:"rounds"`
		Scale      float64   `json:"scale"`
		Seed       uint64    `json:"seed"`
		Workers    int       `json:"workers"`
		Table      []row     `json:"table"`
		Results    []result  `json:"results"`
	}{
		began.UTC(), time.Since(began).Seconds(), runtime.NumCPU(), runtime.Version(), controlplane.KubernetesVersion,
		o.rounds, o.scale, o.seed, o.workers, rows, results,
	}
	content, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	return os.WriteFile(o.out, append(content, '\n'), 0o644)
}
