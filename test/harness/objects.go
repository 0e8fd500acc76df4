//go:build unix

package harness

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
)

// Objects are all that a cluster has: every object of every kind that can be listed, by "Kind.group namespace/name".
type Objects map[string]Thing

// Thing is one of them.
type Thing struct {
	UID types.UID
	// Content is a hash of all but status and what the server counts.
	Content string
	Object  *unstructured.Unstructured
}

// fixture is a label on what tests make for themselves, as rights, which is left out, too.
const fixture = "isthmus.test/fixture"

// AllObjects reads the whole API of a cluster, but for what is left out.
func (s *Side) AllObjects() Objects {
	s.t.Helper()
	all := Objects{}
	err := s.EachObject(context.Background(), "!"+fixture, func(kind schema.GroupKind, o *unstructured.Unstructured) {
		all[kind.String()+" "+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")] = Thing{o.GetUID(), content(o), o}
	})
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // groups that are not served any more
		s.t.Fatal(err)
	}
	return all
}

func content(o *unstructured.Unstructured) string {
	o = o.DeepCopy()
	delete(o.Object, "status")
	for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	text, _ := json.Marshal(o.Object)
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// byItself are objects that are in each namespace without anybody's doing, and Isthmus's own namespace, which it makes and
// leaves.
func byItself(key string) bool {
	return key == "Namespace "+IsthmusNamespace || strings.HasPrefix(key, "ConfigMap ") && strings.HasSuffix(key, "/kube-root-ca.crt") || strings.HasPrefix(key, "ServiceAccount ") && strings.HasSuffix(key, "/default")
}

// Since says how a cluster differs from what it was before: what came, what went, what is another object now, and what
// changed.
func (after Objects) Since(before Objects) (differences []string) {
	for key, thing := range after {
		was, known := before[key]
		switch {
		case byItself(key):
		case !known:
			differences = append(differences, "new: "+key)
		case was.UID != thing.UID:
			differences = append(differences, "another one than before: "+key)
		case was.Content != thing.Content:
			differences = append(differences, "changed: "+key)
		}
	}
	for key := range before {
		if _, still := after[key]; !still && !byItself(key) {
			differences = append(differences, "gone: "+key)
		}
	}
	slices.Sort(differences)
	return differences
}

// SameAs returns nil when a cluster has what it had, and an error that says the differences otherwise.
func (s *Side) SameAs(before Objects) error {
	s.t.Helper()
	if differences := s.AllObjects().Since(before); len(differences) > 0 {
		return fmt.Errorf("%s is not what it was:\n  %s", s.Name(), strings.Join(differences, "\n  "))
	}
	return nil
}
