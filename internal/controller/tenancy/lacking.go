package tenancy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/rbac"
)

// lackingFor is how long the controller takes it for granted that it lacks the rights to hand out a kind.
const lackingFor = time.Minute

// ReasonMissingRights, of a Consumer's Ready: the controller itself lacks the rights to hand out what the Consumer allows.
const ReasonMissingRights = "MissingRights"

// findLacking asks the API server which of the kinds that are to be handed out the controller does not hold itself, and remembers
// them. One kind that it lacks must not keep the others back, nor what is to be taken away.
func (p *pass) findLacking(ctx context.Context) (found bool, err error) {
	asked := map[v1alpha1.RequestedResource]bool{}
	for _, a := range p.requests {
		for _, r := range a.granted {
			if asked[r] {
				continue
			}
			asked[r] = true
			holds, err := p.holdsItself(ctx, r)
			if err != nil {
				return found, err
			}
			if !holds {
				found = true
				p.mu.Lock()
				p.lacking[describe([]v1alpha1.RequestedResource{r})] = time.Now().Add(lackingFor)
				p.mu.Unlock()
			}
		}
	}
	return found, nil
}

// holdsItself reports whether the controller holds, everywhere, what a consumer gets with a kind.
func (p *pass) holdsItself(ctx context.Context, r v1alpha1.RequestedResource) (bool, error) {
	for namespace, rules := range rbac.Consumer(p.own, map[string][]v1alpha1.RequestedResource{"any": {r}}) {
		if namespace == p.own {
			continue
		}
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				holds, err := p.may(ctx, verb, rule)
				if err != nil || !holds {
					return holds, err
				}
			}
		}
	}
	return true, nil
}

// may asks whether the controller holds a verb of a rule of one resource, everywhere.
func (p *pass) may(ctx context.Context, verb string, rule rbacv1.PolicyRule) (bool, error) {
	for _, name := range append(slices.Clone(rule.ResourceNames), "")[:max(1, len(rule.ResourceNames))] {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: rule.APIGroups[0], Resource: rule.Resources[0], Name: name},
		}}
		if err := p.live.Create(ctx, review); err != nil {
			return false, fmt.Errorf("asking whether this controller may %s %s: %w", verb, rule.Resources[0], err)
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}

// dropLacking takes what the controller can't hand out from what is granted to what is refused.
func (p *pass) dropLacking() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.requests {
		had := len(a.granted)
		a.granted = slices.DeleteFunc(a.granted, func(r v1alpha1.RequestedResource) bool {
			if time.Now().After(p.lacking[describe([]v1alpha1.RequestedResource{r})]) {
				return false
			}
			a.refused = append(a.refused, r)
			return true
		})
		if len(a.granted) == had {
			continue
		}
		slices.SortFunc(a.refused, v1alpha1.RequestedResource.Compare)
		a.message = grantedMessage(a.refused)
		if len(a.granted) == 0 {
			a.allowed, a.reason = false, v1alpha1.ReasonNoResources
			a.message = "the provider's controller can't hand out any of the kinds that are asked for: " + describe(a.refused)
		}
	}
}

// reportLacking tells the operator what can't be handed out of what this consumer is to get, and returns when to try again; zero: there is none.
func (p *pass) reportLacking() (again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lacking []string
	for _, a := range p.requests {
		for _, r := range a.refused {
			kind := describe([]v1alpha1.RequestedResource{r})
			if left := time.Until(p.lacking[kind]); left > 0 && !slices.Contains(lacking, kind) {
				lacking = append(lacking, kind)
				again = max(again, left)
			}
		}
	}
	if len(lacking) > 0 {
		slices.Sort(lacking)
		p.trouble = condition{ReasonMissingRights, fmt.Sprintf("this controller lacks the rights to hand out %s: "+
			"give them to its user, in all namespaces, with the kinds' definitions (the chart does so for provider.consumers), or do not allow them", strings.Join(lacking, ", "))}
	}
	return again
}
