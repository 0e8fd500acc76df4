//go:build unix

package endpoints

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/api/v1alpha1"
	crd "isthmus.dev/isthmus/config/crd"
	"isthmus.dev/isthmus/internal/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

// patience is how long a test waits for what must happen.
const patience = 90 * time.Second

func eventually(t *testing.T, check func() error) {
	t.Helper()
	controlplane.Eventually(t, patience, check)
}

// side is a cluster that knows the kinds, and its administrator.
type side struct {
	client.Client
	*controlplane.Cluster
	t testing.TB
}

var defined sync.Once

// newSide returns the cluster that the tests of this package share.
func newSide(t testing.TB) *side {
	t.Helper()
	c := controlplane.Shared(t, "provider")
	defined.Do(func() {
		ctrl.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
		for _, name := range []string{"clusterlinks", "shadowendpointslices"} {
			content, err := crd.Files.ReadFile("isthmus.dev_" + name + ".yaml")
			if err == nil {
				err = c.Apply(t.Context(), content)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	config := c.Config()
	config.QPS = -1
	admin, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	return &side{admin, c, t}
}

// make creates an object.
func (s *side) make(o client.Object) {
	s.t.Helper()
	if err := s.Create(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

func parse[T any](t testing.TB, format string, args ...any) *T {
	t.Helper()
	out, text := new(T), fmt.Sprintf(format, args...)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}
