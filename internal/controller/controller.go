// Package controller is Isthmus as a controller: what crosses is said by Kubernetes objects, and many remotes are served.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/controller/endpoints"
	"isthmus.dev/isthmus/internal/controller/installation"
	"isthmus.dev/isthmus/internal/controller/tenancy"
	"isthmus.dev/isthmus/internal/leader"
	"isthmus.dev/isthmus/internal/observe"
)

// The controllers that may run.
const (
	// Reflection carries objects between this cluster and its RemoteClusters.
	Reflection = "reflection"
	// Tenancy lets other clusters have namespaces on this one.
	Tenancy = "tenancy"
	// Endpoints makes EndpointSlices of what other clusters sent, and with Reflection sends those of Services that cross.
	Endpoints = "endpoints"
	// Installation puts manifests on the clusters that ClusterProfiles name.
	Installation = "installation"
)

// All are the controllers there are.
var All = []string{Reflection, Tenancy, Endpoints, Installation}

// Options are what a Controller runs with.
type Options struct {
	// Controllers are those that run.
	Controllers []string
	// ClusterID is the local cluster's name for good; only with Reflection and Installation. Instance tells several Isthmuses of it apart.
	ClusterID, Instance string
	// Namespace is our own on the local cluster: for ledgers, the Lease, and Secrets with kubeconfigs.
	Namespace string
	Local     *cluster.Cluster
	// Gate, if set, is asked before each write.
	Gate      func() error
	UserAgent string
	Version   string
	// Providers says which access plugins may be run for ClusterProfiles; nil: none.
	Providers    *access.ProviderFile
	MassDeletion boundary.MassDeletion
	// NamespaceSource says which objects say what namespaces have counterparts.
	NamespaceSource string
	// LiqoNetworks has the controller of endpoints take links from what Liqo says of networks, too.
	LiqoNetworks bool
	Metrics      *observe.Remotes
	Own          *observe.Metrics
	Logger       *slog.Logger
	// Election says who of several instances runs; nil: this one is alone.
	Election *leader.Election
}

// Controller runs the controllers.
type Controller struct {
	Options

	mu         sync.Mutex
	reflection *reflection // of the term that runs; nil: none does
	installer  *installation.Installer
	waiting    string // what the start waits for
}

// New makes a Controller.
func New(o Options) *Controller { return &Controller{Options: o, waiting: "starting"} }

// scheme knows the types that the controllers read and write.
func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

// Run runs the controllers until ctx ends; then it may be called again.
func (c *Controller) Run(ctx context.Context) error {
	ctrl.SetLogger(logr.FromSlogHandler(observe.ClientHandler(c.Logger)))
	localUID, err := c.identify(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	known, err := scheme()
	if err != nil {
		return err
	}
	mgr, err := c.manager(ctx, known)
	if err != nil || ctx.Err() != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if slices.Contains(c.Controllers, Tenancy) {
		if err := tenancy.Setup(mgr, tenancy.Options{Namespace: c.Namespace, Logger: c.Logger}); err != nil {
			return err
		}
	}
	var links *endpoints.Links
	if slices.Contains(c.Controllers, Endpoints) {
		if links, err = c.setupEndpoints(mgr); err != nil {
			return err
		}
	}
	if slices.Contains(c.Controllers, Installation) {
		events := observe.NewEvents(c.Local.Clientset(), observe.Component, true)
		events.LogTo(c.Logger)
		defer events.Shutdown()
		installer := installation.New(installation.Options{
			Hub: c.ClusterID, LocalUID: localUID, Local: c.Local, Providers: c.Providers, UserAgent: c.UserAgent, Gate: c.Gate,
			Logger: c.Logger, Events: events,
		})
		if err := installer.SetupWithManager(mgr); err != nil {
			return err
		}
		c.installs(installer)
		defer c.installs(nil)
	}
	if slices.Contains(c.Controllers, Reflection) {
		r, err := c.newReflection(ctx, mgr, localUID, links)
		if err != nil {
			return err
		}
		c.set(r, "")
		defer c.set(nil, "stopped")
		defer r.wait()
	} else {
		c.set(nil, "")
	}
	defer stop()
	return mgr.Start(ctx)
}

func (c *Controller) set(r *reflection, waiting string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reflection, c.waiting = r, waiting
}

func (c *Controller) installs(r *installation.Installer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.installer = r
}

// identify asks the local cluster who it is, waiting for as long as that takes.
func (c *Controller) identify(ctx context.Context) (uid string, err error) {
	err = c.retry(ctx, func() (err error) {
		uid, err = c.Local.UID(ctx)
		return err
	})
	return uid, err
}

// manager makes a controller-runtime manager, as soon as the cluster can be asked what it serves.
func (c *Controller) manager(ctx context.Context, known *runtime.Scheme) (mgr ctrl.Manager, err error) {
	err = c.retry(ctx, func() (err error) {
		mgr, err = ctrl.NewManager(c.Local.RESTConfig(), ctrl.Options{
			Scheme: known,
			// What is served, and who leads, is seen to elsewhere.
			Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
			GracefulShutdownTimeout: ptr.To(10 * time.Second),
			Controller:              config.Controller{SkipNameValidation: ptr.To(true)}, // a manager a term
		})
		return err
	})
	return mgr, err
}

// reachEvery is how often a local cluster that can't be reached at the start is tried again.
const reachEvery = 2 * time.Second

// retry tries until it succeeds or ctx ends; it tells each new reason.
func (c *Controller) retry(ctx context.Context, try func() error) error {
	told := ""
	for {
		err := try()
		if err == nil || ctx.Err() != nil {
			return nil
		}
		c.set(nil, err.Error())
		if err.Error() != told {
			told = err.Error()
			c.Logger.Warn("Waiting", "reason", cluster.Reason(err), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reachEvery):
		}
	}
}

// Ready says why the controller is not ready; nil: it is. Remotes that can't be reached do not make it unready: their
// RemoteClusters tell, and so do the notes.
func (c *Controller) Ready() (notes []string, err error) {
	if c.Election != nil {
		if note, err := c.Election.Standby(); note != "" || err != nil {
			return []string{note}, err
		}
	}
	c.mu.Lock()
	r, waiting := c.reflection, c.waiting
	c.mu.Unlock()
	if waiting != "" {
		return nil, errors.New(waiting)
	}
	if h := c.Local.Health(); !h.Reached {
		return nil, fmt.Errorf("the local cluster is not reached: %w", h.Err)
	}
	if r != nil {
		if r.mapped != nil {
			notes = r.mapped.told()
		}
		notes = append(notes, r.unready()...)
	}
	return notes, nil
}
