package install

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// maxText is how large a source may be once it is unpacked.
const maxText = 32 << 20

// document is one object of the manifests, and where it stands.
type document struct {
	origin
	object     map[string]any
	namespaced bool
}

// origin is where an object stands, for error messages.
type origin struct {
	where        string
	number, line int // of the document, from 1
}

func (o origin) String() string {
	if o.number == 0 {
		return o.where
	}
	return fmt.Sprintf("%s, document %d (line %d)", o.where, o.number, o.line)
}

// fault returns an error about the object.
func (d *document) fault(format string, args ...any) error {
	return fmt.Errorf("%s, %s: %s", d.origin, d.name(), fmt.Sprintf(format, args...))
}

// readAll returns the objects of all sources, in order, those in lists one by one.
func readAll(sources []Source) (docs []*document, err error) {
	for _, source := range sources {
		text, err := plain(source)
		if err != nil {
			return nil, err
		}
		for n, part := range split(text) {
			at := origin{where: source.Where, number: n + 1, line: part.line}
			content, err := decode(part)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
			if docs, err = flatten(docs, at, content); err != nil {
				return nil, err
			}
		}
	}
	if len(docs) == 0 {
		return nil, errors.New("the manifests have no object: expected at least one")
	}
	return docs, nil
}

// plain returns the text of a source, unpacked.
func plain(source Source) ([]byte, error) {
	text := source.Text
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		unpacked, err := gunzip(text)
		if err != nil {
			return nil, fmt.Errorf("%s: unpacking it with gzip: %w", source.Where, err)
		}
		text = unpacked
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%s: expected YAML or JSON in UTF-8, or such text packed with gzip", source.Where)
	}
	return text, nil
}

func gunzip(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("it is larger than %d MiB", maxText>>20)
	}
	return text, err
}

// part is the text of one document, and the line of the source that it starts at.
type part struct {
	text []byte
	line int
	json bool
}

// split cuts a text into documents, without those that say nothing.
func split(text []byte) []part {
	if parts := splitJSON(text); parts != nil {
		return parts
	}
	var parts []part
	current := part{line: 1}
	end := func() {
		if says(current.text) {
			parts = append(parts, current)
		}
	}
	for n, line := range bytes.SplitAfter(text, []byte("\n")) {
		content, separates := bytes.CutPrefix(line, []byte("---"))
		separates = separates && (len(content) == 0 || strings.ContainsRune(" \t\r\n", rune(content[0])))
		if ends := string(bytes.TrimRight(line, " \t\r\n")) == "..."; ends || separates {
			end()
			if current = (part{line: n + 2}); separates && says(content) { // a document that starts right behind its separator
				current = part{line: n + 1, text: append([]byte("   "), content...)}
			}
			continue
		}
		current.text = append(current.text, line...)
	}
	end()
	for i := range parts {
		trimmed := bytes.TrimLeft(parts[i].text, "\r\n")
		parts[i].line += bytes.Count(parts[i].text[:len(parts[i].text)-len(trimmed)], []byte("\n"))
		parts[i].text = trimmed
	}
	return parts
}

// says reports whether there is more in a text than comments and directives.
func says(text []byte) bool {
	for line := range bytes.Lines(text) {
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 && trimmed[0] != '#' && line[0] != '%' {
			return true
		}
	}
	return false
}

// splitJSON cuts a text that is a sequence of JSON objects; nil where it is something else.
func splitJSON(text []byte) (parts []part) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return parts
		case err != nil:
			return nil // perhaps it is YAML in flow style
		}
		start := int(decoder.InputOffset()) - len(raw)
		parts = append(parts, part{text: raw, json: true, line: 1 + bytes.Count(text[:start], []byte("\n"))})
	}
}

// decode returns the content of a document. YAML is read as kubectl does, except that a key that stands twice is refused.
func decode(p part) (content any, err error) {
	defer func() {
		if fault := recover(); fault != nil { // the library panics on some malformed input
			content, err = nil, errors.New("not valid YAML")
		}
	}()
	text := p.text
	if !p.json {
		if text, err = yaml.YAMLToJSONStrict(text); err != nil {
			return nil, explain(err, p.line)
		}
	}
	// This decoder tells integers from other numbers, and refuses what JSON can't hold.
	if err := utiljson.Unmarshal(text, &content); err != nil {
		return nil, errors.New("not valid JSON")
	}
	return content, nil
}

var (
	yamlLine   = regexp.MustCompile(`line (\d+)`)
	yamlQuoted = regexp.MustCompile("'[^']*'|`[^`]*`")
)

// explain returns a YAML library's error with lines of the whole source, and without what stands in the document.
func explain(err error, first int) error {
	message := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:\n  "} {
		message = strings.TrimPrefix(message, prefix)
	}
	message = yamlQuoted.ReplaceAllString(message, "…")
	message = yamlLine.ReplaceAllStringFunc(message, func(found string) string {
		line, _ := strconv.Atoi(strings.TrimPrefix(found, "line "))
		return "line " + strconv.Itoa(line+first-1)
	})
	return fmt.Errorf("not valid YAML: %s", message)
}

// flatten appends what a document holds: one object, or those of a list.
func flatten(docs []*document, at origin, content any) ([]*document, error) {
	object, ok := content.(map[string]any)
	switch {
	case content == nil:
		return docs, nil
	case !ok:
		return nil, fmt.Errorf("%s: expected an object with apiVersion, kind and metadata, found %s", at, typeName(content))
	}
	items, list := listItems(object)
	if !list {
		return append(docs, &document{origin: at, object: object}), nil
	}
	for n, item := range items {
		inside := origin{where: fmt.Sprintf("%s, document %d (line %d), item %d", at.where, at.number, at.line, n+1)}
		if at.number == 0 {
			inside.where = fmt.Sprintf("%s, item %d", at.where, n+1)
		}
		if fields, ok := item.(map[string]any); ok {
			inherit(fields, object)
		}
		var err error
		if docs, err = flatten(docs, inside, item); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// listItems returns the items of a list: an object whose kind ends with List and that has items at its top.
func listItems(object map[string]any) ([]any, bool) {
	kind, _ := object["kind"].(string)
	items, ok := object["items"].([]any)
	return items, ok && strings.HasSuffix(kind, "List")
}

// inherit gives the item of a typed list the type that it may leave out there.
func inherit(item, list map[string]any) {
	kind := strings.TrimSuffix(list["kind"].(string), "List")
	if item["kind"] == nil && item["apiVersion"] == nil && kind != "" {
		item["kind"], item["apiVersion"] = kind, list["apiVersion"]
	}
}

// typeName is what people call the type of a decoded value.
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case string:
		return "a string"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}
