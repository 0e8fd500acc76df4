package tenancy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// everywhere is where cluster-wide rights are.
const everywhere = ""

// allow makes the consumer's role and binding in a namespace, or cluster-wide, what they are to be.
func (p *pass) allow(ctx context.Context, namespace string, rules []rbacv1.PolicyRule) error {
	meta := metav1.ObjectMeta{Name: p.roleName(), Namespace: namespace, Labels: map[string]string{consumerLabel: p.name}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: p.roleName()}
	subjects := []rbacv1.Subject{p.consumer.Spec.Subject.RBAC()}
	var role, binding client.Object = &rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	if namespace == everywhere {
		ref.Kind = "ClusterRole"
		role, binding = &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	err := p.put(ctx, role)
	if errors.Is(err, errForeign) {
		// A role that somebody else wrote must not be the consumer's.
		if p.seen.Get(ctx, client.ObjectKeyFromObject(binding), binding) == nil {
			err = errors.Join(err, p.remove(ctx, binding))
		}
	}
	if err != nil {
		return err
	}
	return p.put(ctx, binding)
}

// roleName is the name of all roles and bindings of the consumer.
func (p *pass) roleName() string { return v1alpha1.ConsumerNamespacePrefix + p.name }

// content is what a role or a binding says. It is compared, for which its fields are exported.
type content struct {
	Rules       []rbacv1.PolicyRule
	Aggregation *rbacv1.AggregationRule
	Subjects    []rbacv1.Subject
	Ref         rbacv1.RoleRef
}

func contentOf(o client.Object) (c content) {
	switch o := o.(type) {
	case *rbacv1.Role:
		c.Rules = o.Rules
	case *rbacv1.ClusterRole:
		c.Rules, c.Aggregation = o.Rules, o.AggregationRule
	case *rbacv1.RoleBinding:
		c.Subjects, c.Ref = o.Subjects, o.RoleRef
	case *rbacv1.ClusterRoleBinding:
		c.Subjects, c.Ref = o.Subjects, o.RoleRef
	}
	return c
}

// put makes a role or a binding what it is to be. One of that name that this controller did not make is errForeign.
func (p *pass) put(ctx context.Context, want client.Object) error {
	have := want.DeepCopyObject().(client.Object)
	err := p.seen.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		err = p.live.Create(ctx, want.DeepCopyObject().(client.Object))
		if !apierrors.IsAlreadyExists(err) {
			return describing(err, "creating", want)
		}
		err = p.live.Get(ctx, client.ObjectKeyFromObject(want), have) // it lost its label, or it is another's
	}
	if err != nil {
		return describing(err, "reading", want)
	}
	if !p.made(have) && !p.reserved[want.GetNamespace()] {
		return describing(errForeign, "taking", want)
	}
	is, should := contentOf(have), contentOf(want)
	if equality.Semantic.DeepEqual(is, should) && have.GetLabels()[consumerLabel] == p.name {
		return nil
	}
	p.Logger.Info("Changed the rights of a consumer", "consumer", p.name, "namespace", want.GetNamespace(), "kind", kindOf(want))
	if is.Ref != should.Ref { // which can't be changed
		if err := p.remove(ctx, have); err != nil {
			return err
		}
		return describing(p.live.Create(ctx, want.DeepCopyObject().(client.Object)), "creating", want)
	}
	next := want.DeepCopyObject().(client.Object)
	labels := maps.Clone(have.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[consumerLabel] = p.name
	next.SetLabels(labels)
	next.SetAnnotations(have.GetAnnotations())
	next.SetUID(have.GetUID())
	next.SetResourceVersion(have.GetResourceVersion())
	return describing(p.live.Update(ctx, next), "updating", want)
}

// revoke removes the consumer's roles and bindings where no rules are wanted. The errors are by namespace.
func (p *pass) revoke(ctx context.Context, wanted map[string][]rbacv1.PolicyRule) (failures map[string]error) {
	failures = map[string]error{}
	from := p.seen
	if p.consumer == nil {
		from = p.live // so that none is left when the Consumer is gone
	}
	// Bindings first: without them a role is nothing.
	for _, list := range []client.ObjectList{
		&rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{}, &rbacv1.ClusterRoleList{},
	} {
		if err := from.List(ctx, list, client.MatchingLabels{consumerLabel: p.name}); err != nil {
			failures[everywhere] = fmt.Errorf("listing the rights of consumer %s: %w", p.name, err)
			continue
		}
		for _, o := range itemsOf(list) {
			if _, keep := wanted[o.GetNamespace()]; keep || o.GetName() != p.roleName() {
				continue
			}
			if err := p.remove(ctx, o); err != nil {
				failures[o.GetNamespace()] = err
				continue
			}
			p.Logger.Info("Removed rights of a consumer", "consumer", p.name, "namespace", o.GetNamespace(), "kind", kindOf(o))
		}
	}
	return failures
}

// remove deletes an object that was read; one that is gone already is no error.
func (p *pass) remove(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	return describing(client.IgnoreNotFound(p.live.Delete(ctx, o, client.Preconditions{UID: &uid})), "deleting", o)
}

func itemsOf(list client.ObjectList) (out []client.Object) {
	switch list := list.(type) {
	case *rbacv1.RoleList:
		out = pointers(list.Items, func(o *rbacv1.Role) client.Object { return o })
	case *rbacv1.RoleBindingList:
		out = pointers(list.Items, func(o *rbacv1.RoleBinding) client.Object { return o })
	case *rbacv1.ClusterRoleList:
		out = pointers(list.Items, func(o *rbacv1.ClusterRole) client.Object { return o })
	case *rbacv1.ClusterRoleBindingList:
		out = pointers(list.Items, func(o *rbacv1.ClusterRoleBinding) client.Object { return o })
	}
	return out
}

func pointers[T any](items []T, as func(*T) client.Object) (out []client.Object) {
	for i := range items {
		out = append(out, as(&items[i]))
	}
	return out
}

// describing wraps an error with what was being done to which object; nil stays nil.
func describing(err error, doing string, o client.Object) error {
	if err == nil {
		return nil
	}
	where := "cluster-wide"
	if o.GetNamespace() != "" {
		where = "in namespace " + o.GetNamespace()
	}
	return fmt.Errorf("%s %s %s %s: %w", doing, kindOf(o), o.GetName(), where, err)
}

// kindOf names an object's kind by its Go type.
func kindOf(o client.Object) string { return strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.") }
