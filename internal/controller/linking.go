package controller

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"isthmus.dev/isthmus/internal/controller/endpoints"
	"isthmus.dev/isthmus/internal/controller/liqo"
)

// setupEndpoints sets the controller of endpoints up; it returns the links that it knows.
func (c *Controller) setupEndpoints(mgr ctrl.Manager) (links *endpoints.Links, err error) {
	options := endpoints.Options{ClusterID: c.ClusterID, Metrics: c.Own, Logger: c.Logger}
	if !c.LiqoNetworks {
		return endpoints.Setup(mgr, options)
	}
	networks := liqo.NewNetworks(c.Local, c.Logger, func() { links.LinksFound() })
	options.Source = networks
	if links, err = endpoints.Setup(mgr, options); err != nil {
		return nil, err
	}
	return links, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		networks.Run(ctx)
		return nil
	}))
}
