package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Error is one fault of a file.
type Error struct {
	// File, Line and Column say where it is; lines and columns count from 1, columns in characters.
	File         string
	Line, Column int
	// Path is the place in the structure, like syncResources[2].selector; empty for the file as a whole.
	Path string
	// Message says what is wrong, what was expected, and what to do.
	Message string
}

// Error returns file:line:column: path: message.
func (e Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", e.File, e.Line, e.Column, e.Path, e.Message)
}

// Errors are all faults of a file, in the order of their positions.
type Errors []Error

// Error returns the faults, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults one by one, for errors.As.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i := range e {
		errs[i] = e[i]
	}
	return errs
}

// position is a place in the text, counted from 1.
type position struct{ line, column int }

// report collects faults, and knows where in the text each path was read.
type report struct {
	file   string
	values map[string]position // of the value at a path, or of its key where the value is a block
	keys   map[string]position // of a map's key at a path
	errs   Errors
	faulty map[string]bool // paths at or under which something is wrong
	format format
}

// format is what messages say of the file format as such.
type format struct {
	root  reflect.Type
	least string // what the shortest file holds
	what  string // it is a list of these
	list  string // under this key
}

var rules = format{root: reflect.TypeFor[File](), least: "`version: v1`", what: "rules", list: "syncResources"}

func newReport(file string) *report {
	return &report{file: file, format: rules, values: map[string]position{}, keys: map[string]position{}, faulty: map[string]bool{}}
}

// add notes a fault at a position.
func (r *report) add(at position, path, format string, args ...any) {
	r.errs = append(r.errs, Error{File: r.file, Line: at.line, Column: at.column, Path: path, Message: fmt.Sprintf(format, args...)})
	for ; path != ""; path = around(path) {
		r.faulty[path] = true
	}
}

// around is the path of the object around the one at a path; empty for the file itself. (Of a map's key that holds a dot
// it takes several steps, through paths of nothing.)
func around(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

// errorf notes a fault of the value at a path.
func (r *report) errorf(p *field.Path, format string, args ...any) {
	r.add(r.find(pathString(p), r.values), pathString(p), format, args...)
}

// keyErrorf notes a fault of a map's key.
func (r *report) keyErrorf(p *field.Path, format string, args ...any) {
	r.add(r.find(pathString(p), r.keys), pathString(p), format, args...)
}

// find returns the position of a path, or, when nothing was read there, of the nearest object around it.
func (r *report) find(path string, in map[string]position) position {
	for ; path != ""; path = around(path) {
		if at, ok := in[path]; ok {
			return at
		}
		if at, ok := r.values[path]; ok {
			return at
		}
	}
	return r.values[""]
}

// sound reports whether nothing was found wrong at a path or under it.
func (r *report) sound(p *field.Path) bool { return !r.faulty[p.String()] }

// result returns the faults in the order of their positions, or nil.
func (r *report) result() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	return r.errs
}
