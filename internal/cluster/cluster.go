package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"isthmus.dev/isthmus/internal/wire"
)

// Options say which cluster to reach, and how to speak of it.
type Options struct {
	// Role is "local" or "remote": how errors and log lines call this side.
	Role string
	// Kubeconfig is the path of a kubeconfig file; empty means the configuration of the pod that we run in.
	Kubeconfig string
	// Content is a kubeconfig that is in no file; it takes the place of Kubeconfig. The files that it names are read again as
	// those of other kubeconfigs are.
	Content []byte
	// Source, if set, says how the cluster is reached, and takes the place of Kubeconfig, Content and Context.
	Source Source
	// Context names a context of the kubeconfig; empty means the one that is current when Connect reads it. A later
	// change of the current context alone moves nothing.
	Context string
	// UserAgent is sent with every request.
	UserAgent string
	// Logger gets what is worth telling about the connection; nil means none.
	Logger *slog.Logger
	// OnHealth, if set, is called with every change of Health, from the request that brought it about: it must neither block
	// nor make requests.
	OnHealth func(Health)
	// Gate, if set, is asked before each write; an error is why it must not be sent. See Ungated.
	Gate func() error
}

// Source returns how a cluster is reached, as of now, or why that can't be told; then what it said before stays in use. It is
// asked as often as a kubeconfig would be read, also from several goroutines, and should answer at once; with refused, because the server or its certificate
// did not fit what it said last, so that it is worth a look at where it knows it from. Its answer is not changed, and
// that of two answers with the same content the second one changes nothing is for the Cluster to see.
type Source func(refused bool) (*rest.Config, error)

// Cluster reaches one cluster. All its methods may be called from several goroutines.
type Cluster struct {
	role      string
	userAgent string
	transport *reloading
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	wire      *wire.Client
	clientset kubernetes.Interface
	log       *slog.Logger
}

// Connect reads the configuration and prepares the clients. It makes no request: a cluster that can't be reached is no
// error here. Errors name the role and the file, and say what is missing in it.
func Connect(o Options) (*Cluster, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("cluster", o.Role)
	rt, err := newReloading(&source{live: o.Source, path: o.Kubeconfig, content: o.Content, context: o.Context, userAgent: o.UserAgent}, log, newHealth(o, log))
	if err != nil {
		return nil, fmt.Errorf("%s cluster: %w", o.Role, err)
	}
	rt.gate = o.Gate
	c := &Cluster{role: o.Role, userAgent: o.UserAgent, transport: rt, log: log}
	if err := c.makeClients(); err != nil {
		return nil, fmt.Errorf("%s cluster: preparing clients: %w", o.Role, err)
	}
	return c, nil
}

func (c *Cluster) makeClients() error {
	config := c.RESTConfig()
	client := &http.Client{Transport: c.transport}
	// As dynamic.NewForConfigAndClient does it, but for the retries.
	unversioned := func(config *rest.Config) (rest.Interface, error) {
		config.APIPath = "/unused"
		restClient, err := rest.UnversionedRESTClientForConfigAndClient(config, client)
		return answersAtOnce{restClient}, err
	}
	restClient, err := unversioned(dynamic.ConfigFor(config))
	if err != nil {
		return err
	}
	c.dynamic = dynamic.New(restClient)
	if restClient, err = unversioned(wire.ConfigFor(config)); err != nil {
		return err
	}
	c.wire = wire.New(restClient)
	if c.metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return err
	}
	c.clientset, err = kubernetes.NewForConfigAndClient(config, client)
	return err
}

// Role returns "local" or "remote".
func (c *Cluster) Role() string { return c.role }

// Server returns the URL that requests go to now.
func (c *Cluster) Server() string { return c.transport.current.Load().server.String() }

// Epoch changes whenever the configuration was read anew and differed; whoever remembers something of the cluster that
// depends on who answers (its UID) asks again when it does.
func (c *Cluster) Epoch() int64 { return c.transport.epoch.Load() }

// Look reads the configuration at once, for who knows that it has changed.
func (c *Cluster) Look() { c.transport.lookNow() }

// Close ends what is in flight and lets the connections go. A closed Cluster is not used again.
func (c *Cluster) Close() { c.transport.current.Load().retire(true) }

// Dynamic returns the client for objects of any kind. It answers at once with what the server said: 429 and 5xx are not
// retried inside, so that the caller's own backoff (and Retry-After, see apierrors.SuggestsClientDelay) decides.
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }

// Objects returns the objects of a resource in a namespace ("": in all, or it is cluster-scoped) as the server sends them.
// It answers as Dynamic does.
func (c *Cluster) Objects(r schema.GroupVersionResource, namespace string) wire.Resource {
	return c.wire.Resource(r, namespace)
}

// Metadata returns the client that transfers the metadata of objects only.
func (c *Cluster) Metadata() metadata.Interface { return c.metadata }

// RESTConfig returns what clients are made with that this package does not have: their requests travel as ours do.
func (c *Cluster) RESTConfig() *rest.Config {
	return &rest.Config{
		Host:      c.transport.base.String(),
		UserAgent: c.userAgent,
		QPS:       -1, // the server's own priority and fairness decides
		// A warning may quote what was sent, and what was sent may be a Secret.
		WarningHandler: rest.NoWarnings{},
		Transport:      c.transport,
	}
}

// Clientset returns the typed client, for Events and access reviews.
func (c *Cluster) Clientset() kubernetes.Interface { return c.clientset }

// UID returns the UID of the namespace kube-system, by which a cluster is told from another one. It is read live.
func (c *Cluster) UID(ctx context.Context) (string, error) {
	ns, err := c.metadata.Resource(namespaces).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("%s cluster: reading namespace %s: %w", c.role, metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}

// Can asks the server whether we may do verb on a resource (and subresource, if not empty) in namespace; an empty
// namespace means the whole cluster.
func (c *Cluster) Can(ctx context.Context, verb string, gvr schema.GroupVersionResource, subresource, namespace string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource,
			Subresource: subresource, Namespace: namespace,
		},
	}}
	answer, err := c.clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(Ungated(ctx), review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("%s cluster: asking whether we may %s %s: %w", c.role, verb, gvr.GroupResource(), err)
	}
	return answer.Status.Allowed, nil
}

// Health returns the outcome of the latest request that told something about the connection.
func (c *Cluster) Health() Health { return c.transport.health.get() }

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
