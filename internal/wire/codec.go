package wire

import (
	"encoding/json"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// negotiated lets a REST client decode answers to Objects.
type negotiated struct{}

func (negotiated) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{
		MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true, Serializer: codec{},
	}}
}

func (negotiated) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return e
}
func (negotiated) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

// codec decodes a metav1.Status as that, and anything else to an Object. Lists and watches are read without it.
type codec struct{}

func (codec) Identifier() runtime.Identifier { return "isthmus/wire" }

func (codec) Encode(obj runtime.Object, w io.Writer) error { return json.NewEncoder(w).Encode(obj) }

func (codec) Decode(text []byte, _ *schema.GroupVersionKind, _ runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, err := decodeAny(text, false)
	if err != nil {
		return nil, nil, err
	}
	kind := object.GetObjectKind().GroupVersionKind()
	return object, &kind, nil
}

// decodeAny reads a metav1.Status, or else an Object, whose JSON it keeps. known is that of parse.
func decodeAny(text []byte, known bool) (runtime.Object, error) {
	o, err := parse(text, known)
	if err != nil {
		return nil, err
	}
	switch o.GetObjectKind().GroupVersionKind() {
	case schema.GroupVersionKind{}:
		return nil, runtime.NewMissingKindErr(string(text[:min(len(text), 100)]))
	case metav1.Unversioned.WithKind("Status"):
		status := &metav1.Status{}
		return status, json.Unmarshal(text, status)
	}
	return o, nil
}
