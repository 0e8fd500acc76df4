package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxSize is the size of the largest file that is read; a ConfigMap holds as much.
const maxSize = 1 << 20

// readTree parses the text into its one document's content. Faults go to the report; then it returns nil.
func readTree(data []byte, r *report) *yaml.Node {
	if at, fault := badText(data); fault != "" {
		r.add(at, "", "%s", fault)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	first, err := nextDocument(decoder)
	if errors.Is(err, io.EOF) || err == nil && isNull(first) {
		r.add(position{1, 1}, "", "the file is empty: expected at least %s", r.format.least)
		return nil
	}
	if err == nil {
		var second *yaml.Node
		if second, err = nextDocument(decoder); err == nil {
			r.add(position{second.Line, second.Column}, "", "a second YAML document starts here: expected one; put all %s under one %s", r.format.what, r.format.list)
			return nil
		}
	}
	if !errors.Is(err, io.EOF) {
		at, fault := explain(data, err)
		r.add(at, "", "not valid YAML: %s", fault)
		return nil
	}
	return first
}

// nextDocument returns the content of the next document. The YAML library panics on some malformed input.
func nextDocument(decoder *yaml.Decoder) (n *yaml.Node, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			n, err = nil, fmt.Errorf("yaml: %v", fault)
		}
	}()
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	return document.Content[0], nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// badText finds what keeps the bytes from being text, which the YAML library would report without a position.
func badText(data []byte) (position, string) {
	if len(data) > maxSize {
		return position{1, 1}, fmt.Sprintf("the file has %d bytes: expected at most %d", len(data), maxSize)
	}
	at := position{1, 1}
	for rest := bytes.TrimPrefix(data, []byte("\ufeff")); len(rest) > 0; {
		char, size := utf8.DecodeRune(rest)
		switch {
		case char == utf8.RuneError && size == 1:
			return at, "the text is not UTF-8: save it as UTF-8"
		case char == '\n':
			at = position{at.line + 1, 0}
		case unicode.IsControl(char) && char != '\t' && char != '\r':
			return at, fmt.Sprintf("the control character %U can't stand in YAML: remove it", char)
		}
		at.column++
		rest = rest[size:]
	}
	return at, ""
}

var yamlErrorLine = regexp.MustCompile(`^(line \d+: )+`)

// plainMessage is a syntax error's message without its line, which is often another one than the faulty one.
func plainMessage(err error) string {
	return yamlErrorLine.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "")
}

// explain finds the line of a syntax error: the last one of the shortest text that fails in the same way.
func explain(data []byte, err error) (position, string) {
	message := plainMessage(err)
	lines := bytes.SplitAfter(data, []byte("\n"))
	good, bad := 0, len(lines)
	for good+1 < bad {
		middle := (good + bad) / 2
		if failure := syntaxError(bytes.Join(lines[:middle], nil)); failure != nil && plainMessage(failure) == message {
			bad = middle
		} else {
			good = middle
		}
	}
	line := string(lines[bad-1])
	content := strings.TrimLeft(line, " \t\r\n")
	column := len(line) - len(content) + 1
	for _, hint := range syntaxHints {
		if strings.Contains(message, hint.message) && strings.Contains(line, hint.line) {
			return position{bad, column}, message + ": " + hint.advice
		}
	}
	return position{bad, column}, message
}

func syntaxError(data []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		if _, err := nextDocument(decoder); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// syntaxHints say what to do about the messages that people meet, by a part of the message and of the line.
var syntaxHints = []struct{ message, line, advice string }{
	{"found a tab", "", "indent with spaces"},
	{"cannot start any token", "\t", "indent with spaces, not tabs"},
	{"cannot start any token", "", "put the value in quotes"},
	{"mapping values are not allowed", "", "check the indentation, and put a value that holds \": \" in quotes"},
	{"did not find expected key", "", "check the indentation"},
	{"did not find expected '-' indicator", "", "check the indentation"},
	{"could not find expected ':'", "", "write key: value"},
	{"expected ',' or ']'", "", "close the list with ]"},
	{"expected ',' or '}'", "", "close the object with }"},
	{"unexpected end of stream", "", "close the quote"},
	{"unknown anchor", "", "define it before it is used, or put the value in quotes"},
	{"unknown escape", "", "use single quotes, or double the backslash"},
}
