//go:build unix

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

// subject is a kind whose objects are edited, answered by a controller, and checked on the source. What they say is a
// number.
type subject struct {
	resource string
	create   func(namespace, name string, n int64) string
	edit     func(n int64) string
	said     func(*unstructured.Unstructured) int64
	answer   func(generation, n int64) string // the status of a controller that has seen this
	places   int                              // where that tells what was observed
	ready    bool                             // it has a condition Ready at its top
}

var widgetSubject = subject{
	resource: widgets,
	create:   func(ns, name string, n int64) string { return widget(ns, name, fmt.Sprintf("{size: %d}", n)) },
	edit:     func(n int64) string { return fmt.Sprintf("spec: {size: %d}", n) },
	said:     sizeOf,
	answer:   seenStatus,
	places:   4,
	ready:    true,
}

// Gateway API keeps conditions in a list of parents alone.
var routeSubject = subject{
	resource: httpRoutes,
	create: func(ns, name string, n int64) string {
		return fmt.Sprintf("{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: %s, namespace: %s}, spec: {hostnames: [h%d.example.io]}}", name, ns, n)
	},
	edit: func(n int64) string { return fmt.Sprintf("spec: {hostnames: [h%d.example.io]}", n) },
	said: func(obj *unstructured.Unstructured) (n int64) {
		hosts, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", "hostnames")
		_, _ = fmt.Sscanf(strings.Join(hosts, ""), "h%d.", &n)
		return n
	},
	answer: func(generation, n int64) string {
		parent := func(name string) string {
			return fmt.Sprintf(`{"parentRef": {"name": "%s"}, "controllerName": "example.io/%[1]s", "conditions": [{"type": "Accepted", "status": "True",
				"reason": "Accepted", "lastTransitionTime": "2030-01-01T00:00:00Z", "observedGeneration": %d, "message": "%d"}]}`, name, generation, n)
		}
		return `{"status": {"parents": [` + parent("a") + `, ` + parent("b") + `]}}`
	},
	places: 2,
}

// laggard is a controller on the remote side, under a user of its own. It looks at an object, and answers what it saw
// some time after.
type laggard struct {
	t       *testing.T
	subject subject
	twins   dynamic.ResourceInterface
	seen    *unstructured.Unstructured

	mu       sync.Mutex
	answered map[answer]bool
}

// answer is that to an object that said n.
type answer struct {
	name string
	n    int64
}

func newLaggard(e *harness.Env, t *testing.T, s subject, ns string) *laggard {
	t.Helper()
	user := "controller-" + ns
	plural, group, _ := strings.Cut(s.resource, ".")
	e.Remote.Apply(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: controller, namespace: %[1]s}
rules: [{apiGroups: [%[3]s], resources: [%[4]s, %[4]s/status], verbs: [get, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: controller, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: controller}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]
`, ns, user, group, plural))
	c, err := e.Remote.UserConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return &laggard{t: t, subject: s, twins: client.Resource(harness.Kind(s.resource)).Namespace(ns), answered: map[answer]bool{}}
}

func (l *laggard) look(name string) {
	l.t.Helper()
	var err error
	if l.seen, err = l.twins.Get(l.t.Context(), name, metav1.GetOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// report answers what was looked at last.
func (l *laggard) report() {
	l.t.Helper()
	n := l.subject.said(l.seen)
	l.mu.Lock()
	l.answered[answer{l.seen.GetName(), n}] = true // before the source can tell
	l.mu.Unlock()
	_, err := l.twins.Patch(l.t.Context(), l.seen.GetName(), types.MergePatchType,
		[]byte(l.subject.answer(l.seen.GetGeneration(), n)), metav1.PatchOptions{FieldManager: "controller"}, "status")
	if err != nil {
		l.t.Fatal(err)
	}
}

// hasAnswered returns an error when the controller has never answered what a source says now.
func (l *laggard) hasAnswered(source *unstructured.Unstructured) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.subject.said(source); !l.answered[answer{source.GetName(), n}] {
		return fmt.Errorf("%s says %d at generation %d, which its controller has not seen", source.GetName(), n, source.GetGeneration())
	}
	return nil
}

// sample looks at each state of the sources in a namespace: nothing that they claim, and that kstatus makes of it, is so
// before the controller has seen it. It returns how many there were that kstatus called current.
func sample(e *harness.Env, t *testing.T, ns string, l *laggard) (current func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	watch, err := e.Local.Client(l.subject.resource, ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var looking sync.WaitGroup
	t.Cleanup(looking.Wait)
	t.Cleanup(cancel)
	n := 0
	looking.Go(func() {
		for event := range watch.ResultChan() {
			obj, ok := event.Object.(*unstructured.Unstructured)
			if !ok || obj.Object["status"] == nil {
				continue
			}
			if err := honest(obj, l.subject.said(obj)); err != nil {
				t.Error(err)
			}
			result, err := status.Compute(obj)
			if err != nil {
				t.Error(err)
			} else if l.subject.ready && result.Status == status.CurrentStatus {
				n++
				if err := l.hasAnswered(obj); err != nil {
					t.Errorf("kstatus says Current, and %v", err)
				}
			}
		}
	})
	return func() int {
		cancel()
		looking.Wait()
		return n
	}
}

// kubectl runs kubectl against the local cluster in the background. It returns its end.
func kubectl(e *harness.Env, args ...string) <-chan error {
	done := make(chan error, 1)
	cmd := exec.Command(e.Local.Binaries().Path(controlplane.Kubectl), append([]string{"--kubeconfig", e.Local.Kubeconfig()}, args...)...)
	harness.Tie(cmd)
	go func() {
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
		}
		done <- err
	}()
	return done
}

// stillWaits returns an error when a command that has to wait does not.
func stillWaits(done <-chan error) error {
	select {
	case err := <-done:
		return fmt.Errorf("it ended, with error %v", err)
	default:
		return nil
	}
}

// A controller that lags by several generations and skips some, and an Isthmus that goes at every point in between.
func laggingController(t *testing.T, e *harness.Env, s subject) {
	ns := e.Namespace("a")
	kind := s.create(ns, "x", 0)
	gvk := harness.Parse(t, kind).GroupVersionKind()
	config := rules(ns, fmt.Sprintf("apiVersion: %s, kind: %s, statusSync: true", gvk.GroupVersion(), gvk.Kind))
	p := e.Start(config)
	l := newLaggard(e, t, s, ns)
	kstatusCurrent := sample(e, t, ns, l)
	name := ""
	says := func(n int64) {
		t.Helper()
		e.Eventually(func() error {
			if twin := e.Remote.Get(s.resource, ns, name); twin == nil || s.said(twin) != n {
				return fmt.Errorf("the twin does not say %d", n)
			}
			return nil
		})
	}
	isCurrent := func() error {
		source := e.Local.Get(s.resource, ns, name)
		return current(source, s.said(source), s.places)
	}
	edit := func(n int64) { e.Local.Patch(s.resource, ns, name, s.edit(n)) }
	var waiting <-chan error
	var slowest time.Duration
	// Each point acts, then waits for what Isthmus has to do about it.
	points := []struct{ act, then func() }{
		{func() { l.look(name); edit(2) }, func() { says(2) }},
		{func() { l.report() }, func() {}}, // one behind
		{func() { edit(3); edit(4) }, func() { says(4) }},
		{func() {
			if s.ready {
				waiting = kubectl(e, "wait", "-n", ns, s.resource+"/"+name, "--for=condition=Ready", "--timeout=60s")
			}
		}, func() {}},
		{func() { l.look(name); edit(5) }, func() { says(5) }},
		{func() { l.report() }, func() {}}, // it has skipped 2 and 3, and is one behind again
		{func() {
			e.Remote.Patch(s.resource, ns, name, s.edit(99))
			l.look(name) // that, or what it is put back to
			l.report()
		}, func() { says(5) }},
		{func() {
			if s.ready && !t.Failed() && !l.answered[answer{name, 5}] {
				if err := stillWaits(waiting); err != nil {
					t.Errorf("kubectl wait before the controller has seen it: %v", err)
				}
			}
			l.look(name)
			l.report()
		}, func() {}},
	}
	restart := 0
	for at := -1; at < len(points); at++ {
		for _, end := range []struct {
			signal string
			with   func()
		}{{"kill", func() { p.Kill() }}, {"term", func() { p.Stop() }}} {
			name = fmt.Sprintf("%s%d", end.signal, at+1)
			e.Local.Create(s.create(ns, name, 1))
			says(1)
			l.look(name)
			l.report()
			e.Eventually(isCurrent)
			for i, point := range points {
				if i == at {
					end.with()
				}
				point.act()
				if i == at {
					p = e.StartWith(config, harness.StartOptions{NoRBAC: true})
					restart++
				}
				point.then()
			}
			answered := time.Now()
			e.Eventually(isCurrent)
			slowest = max(slowest, time.Since(answered))
			if waiting != nil {
				if err := <-waiting; err != nil {
					t.Error(err)
				}
			}
		}
	}
	n := kstatusCurrent()
	if s.ready && n == 0 {
		t.Error("kstatus never said Current")
	}
	t.Logf("%d restarts; kstatus said Current of %d states; the source told the truth at most %s after the controller had", restart, n, slowest.Round(time.Millisecond))
}

func TestT3_ALaggingController(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	laggingController(t, e, widgetSubject)
}

func TestT3_ALaggingGateway(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.ModuleFile(t, gatewayAPI, filepath.Join("config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml")))
	laggingController(t, e, routeSubject)
}
