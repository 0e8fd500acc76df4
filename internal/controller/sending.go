package controller

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"isthmus.dev/isthmus/internal/controller/endpoints"
)

// sendEndpoints has the endpoints of Services cross with them: the sender makes of them what crosses, as soon as there is a
// rule for it, and the fleet tells it which Services have crossed.
func (r *reflection) sendEndpoints(mgr ctrl.Manager, c *Controller, links *endpoints.Links) (err error) {
	r.sender, err = endpoints.NewSender(mgr, endpoints.SenderOptions{
		ClusterID: c.ClusterID, Destinations: r.fleet, Links: links.Current, Events: r.events, Logger: c.Logger,
	})
	if err == nil {
		links.OnChange(r.sender.LinksChanged)
	}
	return err
}
