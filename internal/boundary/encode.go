package boundary

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"
)

// Encode writes a value as encoding/json does, byte for byte: maps in the order of their keys, so that equal values have
// equal encodings. Objects come out of a JSON decoder, so they hold few types, and need none of the reflection by which
// the standard library finds its way through a value. An error says which type has no encoding.
func Encode(v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer e.release()
	if err := e.encode(v); err != nil {
		return nil, err
	}
	return slices.Clone(e.out), nil
}

// digest is the SHA-256 of a value's encoding.
func digest(v any) [sha256.Size]byte {
	e := encoders.Get().(*encoder)
	defer e.release()
	if err := e.encode(v); err != nil {
		// Objects come out of a JSON decoder, so they go into an encoder.
		panic(fmt.Sprintf("hash of an object that is not JSON: %v", err))
	}
	return sha256.Sum256(e.out)
}

var encoders = sync.Pool{New: func() any { return &encoder{} }}

// encoder keeps its memory for the next value.
type encoder struct {
	out []byte
	// keys are those of the maps that are being written, the innermost last.
	keys []string
}

// encoderMost is the size up to which an encoder keeps its memory.
const encoderMost = 1 << 16

func (e *encoder) release() {
	if cap(e.out) <= encoderMost {
		encoders.Put(e)
	}
}

// encode sets out to the encoding of a value.
func (e *encoder) encode(v any) error {
	e.out, e.keys = e.out[:0], e.keys[:0]
	return e.value(v)
}

func (e *encoder) value(v any) error {
	switch v := v.(type) {
	case map[string]any:
		if v != nil {
			return e.object(v)
		}
		e.out = append(e.out, "null"...)
	case []any:
		if v != nil {
			return e.list(v)
		}
		e.out = append(e.out, "null"...)
	case string:
		return e.text(v)
	case bool:
		e.out = strconv.AppendBool(e.out, v)
	case int64:
		e.out = strconv.AppendInt(e.out, v, 10)
	case nil:
		e.out = append(e.out, "null"...)
	default:
		return e.other(v)
	}
	return nil
}

func (e *encoder) object(m map[string]any) error {
	first := len(e.keys)
	for k := range m {
		e.keys = append(e.keys, k)
	}
	last := len(e.keys)
	slices.Sort(e.keys[first:])
	e.out = append(e.out, '{')
	for i := first; i < last; i++ {
		if i > first {
			e.out = append(e.out, ',')
		}
		k := e.keys[i]
		if err := e.text(k); err != nil {
			return err
		}
		e.out = append(e.out, ':')
		if err := e.value(m[k]); err != nil {
			return err
		}
	}
	e.keys = e.keys[:first]
	e.out = append(e.out, '}')
	return nil
}

func (e *encoder) list(items []any) error {
	e.out = append(e.out, '[')
	for i, item := range items {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.value(item); err != nil {
			return err
		}
	}
	e.out = append(e.out, ']')
	return nil
}

func (e *encoder) text(s string) error {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return e.other(s) // something in it is escaped, or may be
		}
	}
	e.out = append(e.out, '"')
	e.out = append(e.out, s...)
	e.out = append(e.out, '"')
	return nil
}

// other leaves a value to the standard library.
func (e *encoder) other(v any) error {
	encoded, err := json.Marshal(v)
	e.out = append(e.out, encoded...)
	return err
}
