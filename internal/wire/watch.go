package wire

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// events reads the events of a watch. It is a watch.Decoder.
type events struct {
	stream  stream
	decoder *decoder
}

func newEvents(body io.ReadCloser) *events {
	e := &events{stream: stream{ReadCloser: body}}
	e.decoder = newDecoder(&e.stream)
	return e
}

// Decode returns the next event, with an Object or a metav1.Status.
func (e *events) Decode() (kind watch.EventType, object runtime.Object, err error) {
	d := e.decoder
	err = d.fields(func(name string) (err error) {
		switch name {
		case "type":
			return d.text((*string)(&kind))
		case "object":
			var value jsontext.Value
			if value, err = d.ReadValue(); err == nil {
				object, err = decodeAny(value.Clone(), true)
			}
			return err
		}
		return d.SkipValue()
	})
	switch {
	case err != nil:
		return "", nil, e.stream.cause(err)
	case object == nil:
		return "", nil, fmt.Errorf("an event of a watch has the type %q and no object", kind)
	}
	switch kind {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
		return kind, object, nil
	}
	return "", nil, fmt.Errorf("an event of a watch has the type %q, which is none", kind)
}

// Close ends the stream.
func (e *events) Close() { _ = e.stream.Close() }

// stream remembers why it failed.
type stream struct {
	io.ReadCloser
	failed error
}

// cause returns why reading JSON from the stream failed. An error of the stream is returned as it was: client-go tells
// connections that end from others by that.
func (s *stream) cause(err error) error {
	switch {
	case s.failed != nil:
		return s.failed
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		s.failed = err
	}
	return n, err
}
