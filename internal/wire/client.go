package wire

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// parameters encodes the options of requests.
var parameters = func() runtime.ParameterCodec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	return runtime.NewParameterCodec(scheme)
}()

// Client reads and writes objects of any kind as they come.
type Client struct{ rest rest.Interface }

// ConfigFor returns a copy of a configuration for the REST client of a Client.
func ConfigFor(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = negotiated{}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return config
}

// New makes a Client of a REST client that was made with ConfigFor.
func New(client rest.Interface) *Client { return &Client{client} }

// Resource returns the objects of a resource in a namespace; empty: in all, or it is cluster-scoped.
func (c *Client) Resource(r schema.GroupVersionResource, namespace string) Resource {
	path := []string{"apis", r.Group, r.Version}
	if r.Group == "" {
		path = []string{"api", r.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return Resource{c.rest, append(path, r.Resource)}
}

// Resource is the objects of a resource in a namespace, or in all.
type Resource struct {
	rest rest.Interface
	path []string
}

// Get returns an object.
func (r Resource) Get(ctx context.Context, name string) (*Object, error) {
	return r.one(ctx, r.rest.Get(), name, nil, &metav1.GetOptions{})
}

// Patch patches an object, or a subresource of it, and returns what came of it.
func (r Resource) Patch(ctx context.Context, name string, kind types.PatchType, body []byte, o metav1.PatchOptions, subresource ...string) (*Object, error) {
	return r.one(ctx, r.rest.Patch(kind).Body(body), name, subresource, &o)
}

func (r Resource) one(ctx context.Context, request *rest.Request, name string, subresource []string, options runtime.Object) (*Object, error) {
	if name == "" {
		return nil, fmt.Errorf("an object without a name was asked for")
	}
	path := append(append(r.path[:len(r.path):len(r.path)], name), subresource...)
	answer, err := r.prepare(request.AbsPath(path...), options).Do(ctx).Get()
	if err != nil {
		return nil, err
	}
	object, ok := answer.(*Object)
	if !ok {
		return nil, fmt.Errorf("expected an object in answer to a request about %s, got %T", name, answer)
	}
	return object, nil
}

// List calls each for the objects of a list, or of a page of it, as they come, and returns what the list says of itself. They
// may be compressed: a server that does not have to writes a list in small pieces, which takes it longer.
func (r Resource) List(ctx context.Context, o metav1.ListOptions, each func(*Object) error) (metav1.ListMeta, error) {
	body, err := r.prepare(r.rest.Get().AbsPath(r.path...), &o).Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer func() { _ = body.Close() }()
	of, err := readList(body, each)
	if err != nil {
		return of, fmt.Errorf("the list of %s: %w", r.path[len(r.path)-1], err)
	}
	return of, nil
}

// Watch tells of changes by events with an Object, or a metav1.Status. They are not compressed: that costs both ends more
// than it saves on most links.
func (r Resource) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	body, err := r.prepare(r.rest.Get().AbsPath(r.path...), &o).SetHeader("Accept-Encoding", "identity").Stream(ctx)
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(newEvents(body), apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")), nil
}

func (r Resource) prepare(request *rest.Request, options runtime.Object) *rest.Request {
	return request.SpecificallyVersionedParams(options, parameters, metav1.Unversioned)
}
