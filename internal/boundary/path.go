package boundary

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path names a place in an object: fields, and "every item" steps through lists. It is written spec.replicas,
// spec.ports[*].nodePort, or metadata.labels["example.io/team"] where a key holds a dot.
type Path []Step

// Step is one step of a Path: a field, or every item of a list.
type Step struct {
	// Field is the field's name; meaningless when EachItem is set.
	Field string
	// EachItem steps into every item of a list.
	EachItem bool
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
				return nil, fail(rest, `[*] or ["key"]`)
			case len(p) == 0 && step.EachItem:
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

// bracketPrefix reads [*] or ["key"] at the start of text, and returns its length; 0 if neither is there.
func bracketPrefix(text string) (Step, int) {
	if strings.HasPrefix(text, "[*]") {
		return Step{EachItem: true}, len("[*]")
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
