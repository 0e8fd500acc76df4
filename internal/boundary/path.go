package boundary

import (
	"fmt"
	"strconv"
	"strings"
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
	var p Path
	i := 0
	for i < len(text) {
		switch {
		case text[i] == '[':
			step, next, err := parseBracket(text, i)
			if err != nil {
				return nil, err
			}
			if len(p) == 0 && step.EachItem {
				return nil, fmt.Errorf("path %q: a path starts with a field, found [*]", text)
			}
			p, i = append(p, step), next
		case text[i] == '.' && i == 0 && len(text) > 1 && text[1] != '.' && text[1] != '[':
			i++ // a leading dot, as in kubectl's JSONPath
			fallthrough
		default:
			if text[i] == '.' {
				if len(p) == 0 || i+1 == len(text) || text[i+1] == '.' || text[i+1] == '[' {
					return nil, fmt.Errorf("path %q: expected a field at character %d", text, i+1)
				}
				i++
			} else if len(p) > 0 && text[i-1] == ']' {
				return nil, fmt.Errorf("path %q: expected \".\" or \"[\" at character %d", text, i+1)
			}
			end := i
			for end < len(text) && text[end] != '.' && text[end] != '[' {
				if text[end] == ']' || text[end] == '"' {
					return nil, fmt.Errorf("path %q: unexpected %q at character %d; quote a key as [\"key\"]", text, text[end], end+1)
				}
				end++
			}
			p, i = append(p, Step{Field: text[i:end]}), end
		}
	}
	return p, nil
}

// parseBracket reads [*] or ["key"] at text[i].
func parseBracket(text string, i int) (Step, int, error) {
	rest := text[i:]
	if strings.HasPrefix(rest, "[*]") {
		return Step{EachItem: true}, i + 3, nil
	}
	if strings.HasPrefix(rest, `["`) {
		quoted, err := strconv.QuotedPrefix(rest[1:])
		if err == nil && strings.HasPrefix(rest[1+len(quoted):], "]") {
			key, err := strconv.Unquote(quoted)
			if err == nil && key != "" {
				return Step{Field: key}, i + 1 + len(quoted) + 1, nil
			}
		}
	}
	return Step{}, 0, fmt.Errorf("path %q: expected [*] or [\"key\"] at character %d", text, i+1)
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
		case s.Field == "" || strings.ContainsAny(s.Field, ".[]\"\\") || strconv.Quote(s.Field) != `"`+s.Field+`"`:
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
