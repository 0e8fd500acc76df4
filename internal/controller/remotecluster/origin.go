package remotecluster

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

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
)

var (
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	profileKind = schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "clusterprofiles"}
)

// origin is the object that says how a remote is reached.
type origin struct {
	resource        schema.GroupVersionResource // empty: a ClusterProfile, but the local cluster does not serve them
	namespace, name string
	key             string // of the Secret; empty for a ClusterProfile
}

// originOf returns where a RemoteCluster's access comes from; profiles is how ClusterProfiles are served.
func originOf(rc *v1alpha1.RemoteCluster, namespace string, profiles schema.GroupVersionResource) origin {
	if ref := rc.Spec.Access.ClusterProfileRef; ref != nil {
		return origin{resource: profiles, namespace: ref.Namespace, name: ref.Name}
	}
	o := origin{resource: secrets, namespace: namespace}
	if ref := rc.Spec.Access.KubeconfigSecretRef; ref != nil {
		o.name, o.key = ref.Name, ref.Key
	}
	return o
}

func (o origin) String() string {
	kind := "ClusterProfile"
	if o.key != "" {
		kind = "Secret"
	}
	return fmt.Sprintf("%s %s/%s", kind, o.namespace, o.name)
}

// errNotSeen says that the object is not known yet.
var errNotSeen = errors.New("not read yet")

// config returns how the remote is reached. unhealthy is why it is not to be used although it is known how, and err why
// that is not known.
func (o origin) config(seen sighting, file *access.ProviderFile) (config *rest.Config, unhealthy, err error) {
	switch {
	case seen.err != nil:
		return nil, nil, fmt.Errorf("%s can't be read: %w", o, seen.err)
	case !seen.known:
		return nil, nil, errNotSeen
	case o.resource.Empty():
		return nil, nil, fmt.Errorf("%s: the local cluster serves no ClusterProfiles (%s); install their CRD, or use kubeconfigSecretRef", o, profileKind)
	case seen.object == nil:
		return nil, nil, fmt.Errorf("%s does not exist", o)
	case o.key != "":
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

func (o origin) fromSecret(secret *unstructured.Unstructured) (*rest.Config, error) {
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	value, ok := data[o.key]
	if !ok {
		has := "no keys"
		if len(data) > 0 {
			has = strings.Join(slices.Sorted(maps.Keys(data)), ", ")
		}
		return nil, fmt.Errorf("%s has no key %q; it has %s", o, o.key, has)
	}
	text, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, fmt.Errorf("%s, key %q: is not base64", o, o.key)
	}
	config, err := access.FromKubeconfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s, key %q: %w", o, o.key, err)
	}
	return config, nil
}

// readNow reads the object of an origin, live; nil: there is none.
func readNow(ctx context.Context, local *cluster.Cluster, o origin) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	object, err := local.Dynamic().Resource(o.resource).Namespace(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// profiles is how the local cluster serves ClusterProfiles.
type profiles struct {
	asked    bool
	resource schema.GroupVersionResource // empty: not at all
}

// watchProfileKind keeps profiles as the local cluster has them, also when they are served later, or in another version.
func (r *Remotes) watchProfileKind() {
	signal := make(chan struct{}, 1)
	r.o.Local.WatchCRD(r.ctx, profileKind, func() {
		select {
		case signal <- struct{}{}:
		default:
		}
	})
	for {
		wait := time.Minute // where the CRD may not be watched
		if err := r.findProfileKind(); err != nil {
			wait = r.timing.retryFirst
		}
		select {
		case <-r.ctx.Done():
			return
		case <-signal:
			// The CRD may be established, and not be served yet.
			if !sleep(r.ctx, 100*time.Millisecond) {
				return
			}
		case <-time.After(wait):
		}
	}
}

// servedProfiles returns how a cluster serves ClusterProfiles; empty: not at all.
func servedProfiles(ctx context.Context, local *cluster.Cluster) (schema.GroupVersionResource, error) {
	versions, err := local.Versions(ctx, profileKind.Group)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	for _, version := range versions {
		gvr := profileKind.WithVersion(version)
		if served, err := local.Serves(ctx, gvr); served || err != nil {
			return gvr, err
		}
	}
	return schema.GroupVersionResource{}, nil
}

func (r *Remotes) findProfileKind() error {
	found, err := servedProfiles(r.ctx, r.o.Local)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.profiles.asked || r.profiles.resource != found {
		r.profiles = profiles{true, found}
		r.recheck("")
	}
	return nil
}

// watchProviders keeps looking at the provider file.
func (r *Remotes) watchProviders() {
	if r.o.Providers == nil {
		return
	}
	for sleep(r.ctx, time.Second) {
		changed, err := r.o.Providers.Look()
		switch {
		case err != nil:
			r.o.Logger.Error("The provider file is not usable; what it said before stays in use", "error", err)
		case changed:
			r.o.Logger.Info("The provider file changed and was read again")
			r.mu.Lock()
			for _, l := range r.links {
				l.reread()
			}
			r.mu.Unlock()
		}
	}
}
