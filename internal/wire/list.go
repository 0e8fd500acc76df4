package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readList calls each for the items of a list as they come, in their order, and returns what the list says of itself. Items
// have the kind that the list tells, if they do not say so themselves.
func readList(body io.ReadCloser, each func(*Object) error) (of metav1.ListMeta, err error) {
	var kind metav1.TypeMeta
	var unnamed []*Object // that came before the kind
	stream := stream{ReadCloser: body}
	d := newDecoder(&stream)
	err = d.fields(func(name string) error {
		switch name {
		case "apiVersion":
			return d.text(&kind.APIVersion)
		case "kind":
			return d.text(&kind.Kind)
		case "metadata":
			value, err := d.ReadValue()
			if err != nil {
				return err
			}
			return json.Unmarshal(value, &of)
		case "items":
			if d.PeekKind() == 'n' {
				return d.SkipValue()
			}
			return d.items(func() error {
				value, err := d.ReadValue()
				if err != nil {
					return err
				}
				o, err := parse(value.Clone(), true)
				switch {
				case err != nil:
					return err
				case o.Head.Object["kind"] != nil && len(unnamed) == 0:
					return each(o)
				}
				unnamed = append(unnamed, o)
				if kind.Kind == "" || kind.APIVersion == "" {
					return nil
				}
				err = nameAll(unnamed, kind, each)
				unnamed = nil
				return err
			})
		default:
			return d.SkipValue()
		}
	})
	switch {
	case err == io.EOF:
		return of, io.ErrUnexpectedEOF
	case err != nil:
		return of, stream.cause(err)
	case !strings.HasSuffix(kind.Kind, "List"):
		return of, fmt.Errorf("expected a list, got the kind %q", kind.Kind)
	}
	return of, nameAll(unnamed, kind, each)
}

// nameAll gives items of a list their kind, where they have none, and calls each for them.
func nameAll(items []*Object, list metav1.TypeMeta, each func(*Object) error) error {
	for _, o := range items {
		if o.Head.Object["kind"] == nil {
			named := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q`, list.APIVersion, strings.TrimSuffix(list.Kind, "List"))
			if rest := bytes.TrimSpace(bytes.TrimSpace(o.JSON)[1:]); len(rest) > 1 {
				named = append(append(named, ','), rest...)
			} else {
				named = append(named, '}')
			}
			var err error
			if o, err = parse(named, true); err != nil {
				return err
			}
		}
		if err := each(o); err != nil {
			return err
		}
	}
	return nil
}
