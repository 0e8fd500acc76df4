package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// negotiated lets a REST client decode answers and watches to Objects.
type negotiated struct{}

func (negotiated) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{
		MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true, Serializer: codec{},
		StreamSerializer: &runtime.StreamSerializerInfo{EncodesAsText: true, Serializer: codec{}, Framer: framer{}},
	}}
}

func (negotiated) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return e
}
func (negotiated) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

// codec decodes a metav1.Status as that, a list to a metav1.List of Objects, the event of a watch, and anything else to an
// Object.
type codec struct{}

func (codec) Identifier() runtime.Identifier { return "isthmus/wire" }

func (codec) Encode(obj runtime.Object, w io.Writer) error { return json.NewEncoder(w).Encode(obj) }

func (codec) Decode(text []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok {
		return event, nil, eventOf(text, event)
	}
	head, err := headOf(text)
	if err != nil {
		return nil, nil, err
	}
	o := of(head, nil)
	kind := o.GetObjectKind().GroupVersionKind()
	switch {
	case kind.Kind == "":
		return nil, nil, runtime.NewMissingKindErr(string(text[:min(len(text), 100)]))
	case kind == metav1.Unversioned.WithKind("Status"):
		status := &metav1.Status{}
		return status, &kind, json.Unmarshal(text, status)
	case strings.HasSuffix(kind.Kind, "List") && o.GetName() == "":
		list, err := listOf(text, kind)
		return list, &kind, err
	}
	o.JSON = bytes.Clone(text) // a watch reads the next event into the same memory
	return o, &kind, nil
}

// eventOf reads an event of a watch, whose object stays as it is.
func eventOf(text []byte, event *metav1.WatchEvent) error {
	return read(text, func(d *decoder) error {
		return d.fields(func(name string) error {
			value, err := d.ReadValue()
			switch {
			case err != nil:
			case name == "type":
				var kind []byte
				kind, err = jsontext.AppendUnquote(nil, value)
				event.Type = string(kind)
			case name == "object":
				event.Object.Raw = bytes.Clone(value)
			}
			return err
		})
	})
}

// listOf reads a list, whose items have the kind that its own tells, if they do not say so themselves.
func listOf(text []byte, kind schema.GroupVersionKind) (*metav1.List, error) {
	list := &metav1.List{}
	list.APIVersion, list.Kind = kind.ToAPIVersionAndKind()
	err := read(text, func(d *decoder) error {
		return d.fields(func(name string) error {
			switch name {
			case "metadata":
				value, err := d.ReadValue()
				if err != nil {
					return err
				}
				return json.Unmarshal(value, &list.ListMeta)
			case "items":
				if d.PeekKind() == 'n' {
					return d.SkipValue()
				}
				return d.items(func() error {
					value, err := d.ReadValue()
					if err != nil {
						return err
					}
					item, err := itemOf(value, kind)
					list.Items = append(list.Items, runtime.RawExtension{Object: item})
					return err
				})
			default:
				return d.SkipValue()
			}
		})
	})
	return list, err
}

// itemOf reads an item of a list, and copies it.
func itemOf(text []byte, list schema.GroupVersionKind) (*Object, error) {
	head, err := headOf(text)
	if err != nil {
		return nil, err
	}
	if head["kind"] != nil {
		return of(head, bytes.Clone(text)), nil
	}
	version, kind := list.ToAPIVersionAndKind()
	kind = strings.TrimSuffix(kind, "List")
	head["apiVersion"], head["kind"] = version, kind
	named := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q`, version, kind)
	if rest := bytes.TrimSpace(bytes.TrimSpace(text)[1:]); len(rest) > 1 {
		named = append(append(named, ','), rest...)
	} else {
		named = append(named, '}')
	}
	return of(head, named), nil
}

// framer takes a stream apart into JSON values.
type framer struct{}

func (framer) NewFrameWriter(w io.Writer) io.Writer { return w }

func (framer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	f := &frames{Closer: r, stream: stream{Reader: r}}
	f.values = jsontext.NewDecoder(&f.stream, lenient)
	return f
}

type frames struct {
	io.Closer
	stream stream
	values *jsontext.Decoder
	rest   []byte // of a value for which there was no room
}

// Read reads one value, or as much of it as there is room for, and then says io.ErrShortBuffer. An error of the stream is
// returned as it was: client-go tells connections that end from others by that.
func (f *frames) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		value, err := f.values.ReadValue()
		switch {
		case err == nil:
			f.rest = value // until the next ReadValue
		case f.stream.failed != nil:
			return 0, f.stream.failed
		case errors.Is(err, io.ErrUnexpectedEOF):
			return 0, io.ErrUnexpectedEOF
		default:
			return 0, err
		}
	}
	n := copy(p, f.rest)
	if f.rest = f.rest[n:]; len(f.rest) > 0 {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

// stream remembers why it failed.
type stream struct {
	io.Reader
	failed error
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.failed = err
	}
	return n, err
}
