package boundary

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path names a place in an object: fields, and steps into every item or one item of a list. It is written
// spec.replicas, spec.ports[*].nodePort, spec.ports[0].name, or metadata.labels["example.io/team"] where a key holds a
// dot.
type Path []Step

// Step is one step of a Path: a field, every item of a list, or one item of a list.
type Step struct {
	// Field is the field's name; empty in the other steps.
	Field string
	// EachItem steps into every item of a list.
	EachItem bool
	// IsIndex steps into one item of a list, the one at Index. Only patches (X1) know such steps: elsewhere the items of
	// a list are told apart by their keys.
	IsIndex bool
	// Index counts from 0.
	Index int
}

// ParsePath reads a path. The error says at which character (counted from 1) what was expected.
func ParsePath(text string) (Path, error) {
	if text == "" {
		return nil, fmt.Errorf("empty path: expected a field, like spec.replicas")
	}
	fail := func(rest, expected string) error {
		at := utf8.RuneCountInString(text[:len(text)-len(rest)]) + 1
		return fmt.Errorf("path %q: expected %s at character %d", text, expected, at)
	}
	var p Path
	for rest := text; rest != ""; {
		if rest[0] == '[' {
			step, length := bracketPrefix(rest)
			switch {
			case length == 0:
				return nil, fail(rest, `[*], [0] or ["key"]`)
			case len(p) == 0 && (step.EachItem || step.IsIndex):
				return nil, fail(rest, "a field")
			}
			p, rest = append(p, step), rest[length:]
			continue
		}
		dotless, dot := strings.CutPrefix(rest, ".") // the first dot may be left out
		if len(p) > 0 && !dot {
			return nil, fail(rest, `"." or "["`)
		}
		field := dotless
		if end := strings.IndexFunc(dotless, needsQuotes); end >= 0 {
			field = dotless[:end]
		}
		rest = dotless[len(field):]
		switch {
		case rest != "" && rest[0] != '.' && rest[0] != '[':
			return nil, fail(rest, `".", "[" or the end (write other keys as ["key"], and every item of a list as [*])`)
		case field == "":
			return nil, fail(rest, "a field")
		}
		p = append(p, Step{Field: field})
	}
	return p, nil
}

// bracketPrefix reads [*], [0] or ["key"] at the start of text, and returns its length; 0 if none of them is there.
func bracketPrefix(text string) (Step, int) {
	if strings.HasPrefix(text, "[*]") {
		return Step{EachItem: true}, len("[*]")
	}
	if index, length := indexPrefix(text); length > 0 {
		return Step{IsIndex: true, Index: index}, length
	}
	if !strings.HasPrefix(text, `["`) {
		return Step{}, 0
	}
	quoted, err := strconv.QuotedPrefix(text[1:])
	if err != nil || !strings.HasPrefix(text[1+len(quoted):], "]") {
		return Step{}, 0
	}
	key, err := strconv.Unquote(quoted)
	if err != nil || key == "" {
		return Step{}, 0
	}
	return Step{Field: key}, len(quoted) + len("[]")
}

// indexPrefix reads an index in brackets, without leading zeros, as bracketPrefix does.
func indexPrefix(text string) (index, length int) {
	digits, _, closed := strings.Cut(text[1:], "]")
	index, err := strconv.Atoi(digits)
	if !closed || err != nil || strconv.Itoa(index) != digits || index < 0 {
		return 0, 0
	}
	return index, len(digits) + len("[]")
}

// needsQuotes reports whether a character can't be in a field that is written without quotes.
func needsQuotes(r rune) bool {
	return r == utf8.RuneError || !strconv.IsPrint(r) || strings.ContainsRune(` .[]"*\`, r)
}

// MustPath is ParsePath for paths in source code; it panics on a malformed one.
func MustPath(text string) Path {
	p, err := ParsePath(text)
	if err != nil {
		panic(err)
	}
	return p
}

// String writes the path so that ParsePath reads it back.
func (p Path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.EachItem:
			b.WriteString("[*]")
		case s.IsIndex:
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
		case s.Field == "" || strings.ContainsFunc(s.Field, needsQuotes):
			b.WriteString("[" + strconv.Quote(s.Field) + "]")
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.Field)
		}
	}
	return b.String()
}

// Field returns the path one field deeper; the receiver is not changed.
func (p Path) Field(name string) Path { return p.with(Step{Field: name}) }

// Items returns the path into every item of the list at p; the receiver is not changed.
func (p Path) Items() Path { return p.with(Step{EachItem: true}) }

func (p Path) with(s Step) Path { return append(p[:len(p):len(p)], s) }
