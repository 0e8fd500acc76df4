//go:build unix

package e2e

import (
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

const deployments = "deployments.apps"

func imageOf(obj *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		return ""
	}
	return fmt.Sprint(containers[0].(map[string]any)["image"])
}

// A Deployment runs on the remote side alone. What checks on the source say of a rollout is never so before the remote
// controller could have begun with it, and is so in the end.
func TestT3_RolloutStatus(t *testing.T) {
	t.Parallel()
	e := harness.NewOwn(t, controlplane.Options{})
	workloads := []controlplane.Component{controlplane.ControllerManager, controlplane.Scheduler, controlplane.Kwok}
	if err := e.Remote.StartComponent(t.Context(), workloads...); err != nil {
		t.Fatal(err)
	}
	if err := e.Remote.AddNode(t.Context(), "node-1"); err != nil {
		t.Fatal(err)
	}
	ns := e.Namespace("a")
	config := rules(ns, "apiVersion: apps/v1, kind: Deployment, statusSync: true")
	p := e.Start(config)

	// The controller may have begun with these images.
	var mu sync.Mutex
	begun := map[string]bool{"web:0": true}
	mayBe := func(image string) bool {
		mu.Lock()
		defer mu.Unlock()
		return begun[image]
	}
	watch, err := e.Local.Client(deployments, ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var looking sync.WaitGroup
	states, currents := 0, 0
	looking.Go(func() {
		for event := range watch.ResultChan() {
			obj, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			states++
			result, err := status.Compute(obj)
			if err != nil {
				t.Error(err)
			} else if result.Status == status.CurrentStatus {
				currents++
				if !mayBe(imageOf(obj)) {
					t.Errorf("kstatus says Current of generation %d with %s before the controller has begun with it: %v", obj.GetGeneration(), imageOf(obj), obj.Object["status"])
				}
			}
		}
	})

	e.Local.Create(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ` + ns + `}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:0"}]}
`)
	rollout := func() <-chan error {
		return kubectl(e, "rollout", "status", "-n", ns, "deployment/web", "--timeout=90s")
	}
	if err := <-rollout(); err != nil {
		t.Fatal(err)
	}
	edit := func(image string) {
		e.Local.Patch(deployments, ns, "web", "spec: {template: {spec: {containers: [{name: web, image: '"+image+"'}]}}}")
	}
	arrives := func(image string) {
		t.Helper()
		e.Eventually(func() error {
			if have := imageOf(e.Remote.Get(deployments, ns, "web")); have != image {
				return fmt.Errorf("the twin has %s, not %s", have, image)
			}
			return nil
		})
	}
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for round, restart := range []func(){func() {}, func() { p.Kill() }, func() { p.Stop() }} {
		again := func() {
			if restart(); round > 0 {
				p = e.StartWith(config, harness.StartOptions{NoRBAC: true})
			}
		}
		skipped, image := fmt.Sprintf("web:%d", 2*round+1), fmt.Sprintf("web:%d", 2*round+2)
		step(e.Remote.Pause(controlplane.ControllerManager))
		edit(skipped) // this one the controller never sees
		arrives(skipped)
		again()
		edit(image)
		early := rollout()
		arrives(image)
		// Somebody else changes the twin, and what it says is put back.
		e.Remote.Patch(deployments, ns, "web", "spec: {replicas: 1}")
		e.Eventually(func() error { return is(e.Remote.Get(deployments, ns, "web"), 2, "spec", "replicas") })
		again()
		if err := stillWaits(early); err != nil {
			t.Errorf("kubectl rollout status while the controller stands still: %v", err)
		}
		mu.Lock()
		begun[image] = true
		mu.Unlock()
		step(e.Remote.Resume(controlplane.ControllerManager))
		again()
		step(<-early)
		twin := e.Remote.Get(deployments, ns, "web")
		result, err := status.Compute(twin)
		if err != nil || result.Status != status.CurrentStatus || imageOf(twin) != image {
			t.Errorf("kubectl rollout status on the source is done, and the twin with %s is %+v (%v)", imageOf(twin), result, err)
		}
		e.Eventually(func() error {
			source := e.Local.Get(deployments, ns, "web")
			result, err := status.Compute(source)
			if err == nil && result.Status != status.CurrentStatus {
				err = fmt.Errorf("kstatus: %s, %s", result.Status, result.Message)
			}
			return err
		})
	}
	watch.Stop()
	looking.Wait()
	if currents == 0 {
		t.Error("kstatus never said Current")
	}
	t.Logf("kstatus said Current of %d of %d states", currents, states)
}
