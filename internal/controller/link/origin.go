package link

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
)

var (
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	profileKind = schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "clusterprofiles"}
)

// Origin is the object that says how a cluster is reached: a ClusterProfile, or a Secret with a kubeconfig.
type Origin struct {
	Namespace, Name string
	// Key of the Secret; empty for a ClusterProfile.
	Key string
}

// String returns kind and name of the object.
func (o Origin) String() string {
	kind := "ClusterProfile"
	if !o.profile() {
		kind = "Secret"
	}
	return fmt.Sprintf("%s %s/%s", kind, o.Namespace, o.Name)
}

func (o Origin) profile() bool { return o.Key == "" }

// resource returns how the object is served; empty: not at all.
func (o Origin) resource(p profiles) schema.GroupVersionResource {
	if o.profile() {
		return p.resource
	}
	return secrets
}

// What may be wrong with an Origin, beside what its object says.
var (
	// ErrNotRead says that the object is not known yet.
	ErrNotRead = errors.New("not read yet")
	// ErrMissing says that there is none.
	ErrMissing = errors.New("does not exist")
)

// sighting is what is known of the object of an Origin.
type sighting struct {
	known    bool
	object   *unstructured.Unstructured // nil: there is none
	unserved bool                       // the local cluster serves no objects of the kind
	err      error                      // why it is not known
}

// config returns how the cluster is reached. unhealthy is why it is not to be used although it is known how, and err why
// that is not known.
func (o Origin) config(seen sighting, file *access.ProviderFile) (config *rest.Config, unhealthy, err error) {
	switch {
	case seen.err != nil:
		return nil, nil, fmt.Errorf("%s can't be read: %w", o, seen.err)
	case !seen.known:
		return nil, nil, ErrNotRead
	case seen.unserved:
		return nil, nil, fmt.Errorf("%s: the local cluster serves no ClusterProfiles (%s); install their CRD", o, profileKind)
	case seen.object == nil:
		return nil, nil, fmt.Errorf("%s %w", o, ErrMissing)
	case !o.profile():
		config, err = o.fromSecret(seen.object)
		return config, nil, err
	}
	profile, err := access.ReadProfile(seen.object)
	if err == nil {
		config, err = access.FromProfile(profile, file.Providers())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o, err)
	}
	if profile.Unhealthy != "" {
		unhealthy = fmt.Errorf("%s: %s", o, profile.Unhealthy)
	}
	return config, unhealthy, nil
}

func (o Origin) fromSecret(secret *unstructured.Unstructured) (*rest.Config, error) {
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	value, ok := data[o.Key]
	if !ok {
		has := "no keys"
		if len(data) > 0 {
			has = strings.Join(slices.Sorted(maps.Keys(data)), ", ")
		}
		return nil, fmt.Errorf("%s has no key %q; it has %s", o, o.Key, has)
	}
	text, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, fmt.Errorf("%s, key %q: is not base64", o, o.Key)
	}
	config, err := access.FromKubeconfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s, key %q: %w", o, o.Key, err)
	}
	return config, nil
}

// readNow reads the object of an origin, live; nil: there is none.
func readNow(ctx context.Context, local *cluster.Cluster, resource schema.GroupVersionResource, o Origin) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	object, err := local.Dynamic().Resource(resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}
