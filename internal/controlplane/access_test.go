//go:build unix

package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/internal/controlplane"
)

const readerOf = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: %[1]s}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: readers}
- {kind: ServiceAccount, name: robot, namespace: %[1]s}
`

func TestUsersMayDoWhatRBACGrants(t *testing.T) {
	t.Parallel()
	c := controlplane.Shared(t, "shared")
	if err := c.Apply(t.Context(), fmt.Appendf(nil, readerOf, "granted")); err != nil {
		t.Fatal(err)
	}
	kubeconfigs := map[string]func() (string, error){
		"user":            func() (string, error) { return c.UserKubeconfig("ann") },
		"group":           func() (string, error) { return c.UserKubeconfig("bob", "readers") },
		"service account": func() (string, error) { return c.ServiceAccountKubeconfig(t.Context(), "granted", "robot") },
	}
	for kind, kubeconfig := range kubeconfigs {
		t.Run(kind, func(t *testing.T) {
			path, err := kubeconfig()
			if err != nil {
				t.Fatal(err)
			}
			user := clientOf(t, path).CoreV1()
			// The authorizer sees new rules a moment later.
			eventually(t, "reading what is granted", func(ctx context.Context) error {
				_, err := user.ConfigMaps("granted").List(ctx, metav1.ListOptions{})
				return err
			})
			_, err = user.ConfigMaps("granted").Create(t.Context(), configMap("x"), metav1.CreateOptions{})
			if !apierrors.IsForbidden(err) {
				t.Errorf("writing: %v, want it forbidden", err)
			}
			_, err = user.ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			if !apierrors.IsForbidden(err) {
				t.Errorf("reading another namespace: %v, want it forbidden", err)
			}
		})
	}
	stranger, err := c.UserKubeconfig("carl")
	if err != nil {
		t.Fatal(err)
	}
	_, err = clientOf(t, stranger).CoreV1().ConfigMaps("granted").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a user without a grant: %v, want it forbidden", err)
	}
}

func TestExpiredUserIsUnauthorized(t *testing.T) {
	t.Parallel()
	c := controlplane.Shared(t, "shared")
	path, err := c.UserKubeconfigExpiring("late", time.Now().Add(-time.Minute), "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	_, err = clientOf(t, path).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("a request with an expired certificate: %v", err)
	}
}

func TestServingCertIsReplaced(t *testing.T) {
	t.Parallel()
	c := start(t, "expiring", controlplane.Options{ServingCertNotAfter: time.Now().Add(-time.Minute)})
	get := func(ctx context.Context) error {
		// A client of its own, for a connection of its own.
		config := c.Config()
		config.UserAgent = time.Now().String()
		_, err := client(t, config).Discovery().WithLegacy().ServerVersion()
		return err
	}
	if err := get(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate has expired") {
		t.Errorf("a request to an expired server: %v", err)
	}
	if err := c.ReplaceServingCert(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context()); err != nil {
		t.Errorf("a request after the certificate was replaced: %v", err)
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	c := controlplane.Shared(t, "shared")
	// The object follows its definition at once.
	const widgets = `
# a comment before the first document
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.example}
spec:
  group: test.example
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
---
apiVersion: test.example/v1
kind: Widget
metadata: {name: w}
spec: {size: 3}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: in-list}}
`
	for range 2 {
		if err := c.Apply(t.Context(), []byte(widgets)); err != nil {
			t.Fatal(err)
		}
	}
	mustHave(t, client(t, c.Config()), "in-list")

	cases := map[string]struct{ manifest, want string }{
		"refused":      {"{apiVersion: test.example/v1, kind: Widget, metadata: {name: bad}, spec: {size: much}}", "Widget default/bad"},
		"unknown kind": {"{apiVersion: test.example/v1, kind: Gadget, metadata: {name: g}}", `no matches for kind "Gadget"`},
		"no namespace": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: nowhere}}", `namespaces "nowhere" not found`},
		"nameless":     {"{apiVersion: v1, kind: ConfigMap}", "no metadata.name"},
		"no YAML":      {"a: b: c", "document 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.Apply(t.Context(), []byte(tc.manifest))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want it to name %s", err, tc.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Apply(ctx, []byte(widgets)); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled apply: %v", err)
	}
}
