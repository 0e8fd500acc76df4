package cluster

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// answersAtOnce is a REST client whose requests are made once. client-go would otherwise sleep up to ten times for the
// server's Retry-After inside the call and hold the caller's worker for as long.
type answersAtOnce struct{ rest.Interface }

func (c answersAtOnce) Verb(verb string) *rest.Request { return c.Interface.Verb(verb).MaxRetries(0) }
func (c answersAtOnce) Post() *rest.Request            { return c.Interface.Post().MaxRetries(0) }
func (c answersAtOnce) Put() *rest.Request             { return c.Interface.Put().MaxRetries(0) }
func (c answersAtOnce) Get() *rest.Request             { return c.Interface.Get().MaxRetries(0) }
func (c answersAtOnce) Delete() *rest.Request          { return c.Interface.Delete().MaxRetries(0) }
func (c answersAtOnce) Patch(pt types.PatchType) *rest.Request {
	return c.Interface.Patch(pt).MaxRetries(0)
}
