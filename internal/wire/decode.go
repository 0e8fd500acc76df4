package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decoder reads JSON that an API server wrote: it is not checked for what such a server never sends.
type decoder struct {
	*jsontext.Decoder
	input bytes.Buffer
	names map[string]string
}

// mostNames bounds how many names of fields a decoder remembers, so that not every object has copies of its own.
const mostNames = 1024

var decoders = sync.Pool{New: func() any { return newDecoder(&bytes.Buffer{}) }}

func newDecoder(r io.Reader) *decoder {
	return &decoder{Decoder: jsontext.NewDecoder(r, lenient), names: map[string]string{}}
}

var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// read lets do read one JSON value, and sees that nothing follows.
func read(text []byte, do func(*decoder) error) error {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.input = *bytes.NewBuffer(text)
	d.Reset(&d.input, lenient)
	err := do(d)
	if err == nil {
		if _, err = d.ReadToken(); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = fmt.Errorf("more than one value")
		}
	}
	d.input = bytes.Buffer{}
	return err
}

// value reads any value.
func (d *decoder) value() (any, error) {
	switch d.PeekKind() {
	case '{':
		object := map[string]any{}
		return object, d.fields(func(name string) error {
			value, err := d.value()
			object[name] = value
			return err
		})
	case '[':
		items := []any{}
		return items, d.items(func() error {
			item, err := d.value()
			items = append(items, item)
			return err
		})
	}
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	default:
		return number(token.String()), nil
	}
}

// number returns a whole number as int64, another one, or one that is too long for that, as the nearest float64.
func number(text string) any {
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		return whole
	}
	n, _ := strconv.ParseFloat(text, 64) // which only a range can fail
	return max(-math.MaxFloat64, min(n, math.MaxFloat64))
}

// fields calls each, which reads a value, for each field of an object.
func (d *decoder) fields(each func(name string) error) error {
	if err := d.open('{'); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.name()
		if err != nil {
			return err
		}
		if err := each(name); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// reader reads a value.
type reader = func() (any, error)

// some reads the fields of an object that choose gives a reader for, and passes over the others. No object is
// read for null.
func (d *decoder) some(choose func(name string) reader) (map[string]any, error) {
	if d.PeekKind() == 'n' {
		return nil, d.SkipValue()
	}
	object := map[string]any{}
	return object, d.fields(func(name string) error {
		read := choose(name)
		if read == nil {
			return d.SkipValue()
		}
		value, err := read()
		object[name] = value
		return err
	})
}

// items calls each, which reads a value, for each item of a list.
func (d *decoder) items(each func() error) error {
	if err := d.open('['); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if err := each(); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// text reads a string.
func (d *decoder) text(into *string) error {
	quoted, err := d.ReadValue()
	if err != nil {
		return err
	}
	unquoted, err := jsontext.AppendUnquote(nil, quoted)
	*into = string(unquoted)
	return err
}

func (d *decoder) open(kind jsontext.Kind) error {
	token, err := d.ReadToken()
	if err == nil && token.Kind() != kind {
		err = fmt.Errorf("expected %s, got %s", kind, token.Kind())
	}
	return err
}

// name reads the name of a field.
func (d *decoder) name() (string, error) {
	quoted, err := d.ReadValue()
	if err != nil {
		return "", err
	}
	if known, ok := d.names[string(quoted)]; ok {
		return known, nil
	}
	name, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return "", err
	}
	if len(d.names) < mostNames {
		d.names[string(quoted)] = string(name)
	}
	return string(name), nil
}
