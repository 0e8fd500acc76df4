package rbac

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// objects renders grants as the objects to apply.
func objects(o Options, grants grantSet) []runtime.Object {
	r := renderer{Options: o}
	var out []runtime.Object
	if o.Side == Local {
		out = append(out, &corev1.Namespace{TypeMeta: typeMeta("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: o.Namespace}})
	}
	policies := grants.policies()
	for _, namespace := range slices.Sorted(maps.Keys(policies)) {
		if namespace == "" {
			out = append(out, r.clusterRole(policies[namespace]), r.clusterRoleBinding())
		} else {
			out = append(out, r.role(namespace, policies[namespace]), r.roleBinding(namespace))
		}
	}
	return out
}

type renderer struct{ Options }

func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

func rbacMeta(kind string) metav1.TypeMeta { return typeMeta(rbacv1.SchemeGroupVersion.String(), kind) }

func (r renderer) meta(namespace string) metav1.ObjectMeta {
	name := r.Name
	if name == "" {
		name = "isthmus-" + r.Instance + "-" + string(r.Side)
	}
	return metav1.ObjectMeta{
		Name:      name,
		Namespace: namespace,
		Labels:    map[string]string{"app.kubernetes.io/name": "isthmus", "app.kubernetes.io/instance": r.Instance},
	}
}

func (r renderer) clusterRole(rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{TypeMeta: rbacMeta("ClusterRole"), ObjectMeta: r.meta(""), Rules: rules}
}

func (r renderer) role(namespace string, rules []rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{TypeMeta: rbacMeta("Role"), ObjectMeta: r.meta(namespace), Rules: rules}
}

func (r renderer) clusterRoleBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: rbacMeta("ClusterRoleBinding"), ObjectMeta: r.meta(""), Subjects: r.subjects(), RoleRef: r.ref("ClusterRole"),
	}
}

func (r renderer) roleBinding(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: rbacMeta("RoleBinding"), ObjectMeta: r.meta(namespace), Subjects: r.subjects(), RoleRef: r.ref("Role"),
	}
}

func (r renderer) ref(kind string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: r.meta("").Name}
}

func (r renderer) subjects() []rbacv1.Subject {
	if r.Subject.User != "" {
		return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: r.Subject.User}}
	}
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.Subject.Namespace, Name: r.Subject.ServiceAccount}}
}
