//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// widgets is a bare client of the Widgets in a namespace, or ("") in all of them: bodies go out as they are, and answers are not decoded.
type widgets struct {
	rest      rest.Interface
	namespace string
}

func newWidgets(config *rest.Config, namespace string) (*widgets, error) {
	client, err := bareClient(config, schema.GroupVersion{Group: group, Version: version})
	if err != nil {
		return nil, err
	}
	return &widgets{client, namespace}, nil
}

// bareClient is a client of the kinds in a group that sends bodies as they are.
func bareClient(config *rest.Config, gv schema.GroupVersion) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	config.QPS = -1
	return rest.RESTClientFor(config)
}

// in is the same client in another namespace; "": all of them.
func (w *widgets) in(namespace string) *widgets { return &widgets{w.rest, namespace} }

func (w *widgets) create(ctx context.Context, body []byte) error {
	return w.rest.Post().Namespace(w.namespace).Resource(plural).Body(body).Do(ctx).Error()
}

// change changes source i to a version.
func (w *widgets) change(ctx context.Context, i int, v int64) error {
	return w.patch(ctx, types.MergePatchType, name(i), fmt.Appendf(nil, `{"spec":{"size":%d}}`, v))
}

// patch patches an object, or a subresource of it, by a body of a type.
func (w *widgets) patch(ctx context.Context, kind types.PatchType, name string, body []byte, subresource ...string) error {
	r := w.rest.Patch(kind).Namespace(w.namespace).Resource(plural).Name(name).SubResource(subresource...).Body(body)
	if kind == types.ApplyPatchType {
		r = r.Param("force", "true").Param("fieldManager", "floor")
	}
	return r.Do(ctx).Error()
}

func (w *widgets) deleteAll(ctx context.Context) error {
	return w.rest.Delete().Namespace(w.namespace).Resource(plural).Do(ctx).Error()
}

func (w *widgets) delete(ctx context.Context, name string) error {
	options := []byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}`)
	return w.rest.Delete().Namespace(w.namespace).Resource(plural).Name(name).Body(options).Do(ctx).Error()
}

// list returns the resourceVersion of a list of all, and how long it took to come whole; it is not decoded.
func (w *widgets) list(ctx context.Context) (resourceVersion string, took time.Duration, err error) {
	began := time.Now()
	body, err := w.rest.Get().Namespace(w.namespace).Resource(plural).Do(ctx).Raw()
	if err != nil {
		return "", 0, err
	}
	took = time.Since(began)
	var list struct{ Metadata metav1.ListMeta }
	if err := json.Unmarshal(body, &list); err != nil {
		return "", 0, err
	}
	return list.Metadata.ResourceVersion, took, nil
}

// event is what a watch tells, as far as anybody here asks.
type event struct {
	Type   string
	Object struct {
		Metadata struct{ Name, ResourceVersion string }
		Spec     struct{ Size int64 }
		Status   struct{ Count int64 }
	}
	at time.Time
}

// watch tells see of all changes after a resourceVersion; empty: of all that there is, and then of all changes. It goes
// on where the server ends it, as it does with watchers that are slow for a moment, and returns nil when ctx ends.
func (w *widgets) watch(ctx context.Context, resourceVersion string, see func(event)) error {
	for {
		last, err := w.watchOnce(ctx, resourceVersion, see)
		if err != nil || ctx.Err() != nil {
			return err
		}
		resourceVersion = last
	}
}

// watchOnce is watch until the server ends it: it returns the resourceVersion to go on after, which is empty as long as
// not all that there was has been told: that comes by name, not in the order of its changes.
func (w *widgets) watchOnce(ctx context.Context, resourceVersion string, see func(event)) (last string, err error) {
	request := w.rest.Get().Namespace(w.namespace).Resource(plural).
		Param("watch", "true").Param("resourceVersion", resourceVersion).Param("timeoutSeconds", "7200").Param("allowWatchBookmarks", "true")
	if resourceVersion == "" {
		request.Param("sendInitialEvents", "true").Param("resourceVersionMatch", "NotOlderThan")
	}
	stream, err := request.Stream(ctx)
	if ctx.Err() != nil {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("watch: %w", err)
	}
	defer func() { _ = stream.Close() }()
	last = resourceVersion
	for lines := bufio.NewReaderSize(stream, 1<<16); ; {
		line, err := lines.ReadBytes('\n')
		if ctx.Err() != nil || errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) == 0 {
			return last, nil
		}
		if err != nil {
			return "", fmt.Errorf("watch: %w", err)
		}
		e := event{at: time.Now()}
		if err := json.Unmarshal(line, &e); err != nil {
			return "", fmt.Errorf("watch: %w: %s", err, line)
		}
		switch e.Type {
		case "ERROR":
			return "", fmt.Errorf("watch: %s", line)
		case "BOOKMARK": // the first one ends what there was
			last = e.Object.Metadata.ResourceVersion
			continue
		}
		if last != "" {
			last = e.Object.Metadata.ResourceVersion
		}
		see(e)
	}
}
