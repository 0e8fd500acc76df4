//go:build unix

package installation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/test/harness"
)

const (
	knative    = "knative.dev/operator@v0.48.1"
	gatewayAPI = "sigs.k8s.io/gateway-api@v1.5.0"
)

// servingRelease is the files of a release of Knative Serving, by their names, with Kourier and a Gateway of the Gateway API.
func servingRelease(t *testing.T, version string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for from, to := range map[string]string{"1-serving-crds": "serving-crds", "2-serving-core": "serving-core", "3-serving-hpa": "serving-hpa", "4-serving-post-install-jobs": "serving-post-install-jobs"} {
		files[to+".yaml"] = harness.ModuleFile(t, knative, "cmd/operator/kodata/knative-serving/"+version+"/"+from+".yaml")
	}
	files["kourier.yaml"] = harness.ModuleFile(t, knative, "cmd/operator/kodata/ingress/"+version[:4]+"/kourier/kourier.yaml")
	files["gateway.yaml"] = harness.ModuleFile(t, gatewayAPI, "config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml") +
		"\n---\n" + harness.ModuleFile(t, gatewayAPI, "config/crd/standard/gateway.networking.k8s.io_gateways.yaml") + `
---
{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: kourier}, spec: {controllerName: example.io/kourier}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ingress, namespace: kourier-system}
spec: {gatewayClassName: kourier, listeners: [{name: http, port: 80, protocol: HTTP}]}
`
	return files
}

// unasked is what tests change in Knative: its pods exist on paper, so nobody answers for its webhooks.
const unasked = `
  patches:
    - target: {group: admissionregistration.k8s.io, kind: .*WebhookConfiguration}
      patch: '[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}, {"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 1}]'
`

// Knative Serving and its ingress, as docs/installations.md says it, command by command: available on one member and on no other
// cluster, owned, upgraded with what that prunes, nothing asked while in step, and uninstalled without a trace.
func TestF2I1I3I4I5I7I8_KnativeServing(t *testing.T) {
	h := harness.NewHub(t)
	h.Own("knative-serving", "kourier-system")
	w := h.Reach(h.One, "apac-1")
	page := read(t, "../../docs/installations.md")
	example := read(t, "../../examples/installations/knative-serving.yaml")
	_, manifest, _ := strings.Cut(example, "\n")
	_, manifest, _ = strings.Cut(manifest, "\n")
	if !strings.Contains(unindented(page), manifest) {
		t.Error("docs/installations.md does not show examples/installations/knative-serving.yaml as it is")
	}
	sh := newShell(t, h, map[string]*harness.Side{"hub": h.Side, "apac-1": h.One})
	for _, version := range []string{"1.20.3", "1.21.1"} {
		for name, text := range servingRelease(t, version) {
			if version != "1.21.1" || name != "serving-hpa.yaml" {
				sh.write("knative-"+version+"/"+name, text)
			}
		}
	}
	sh.write("knative-serving.yaml", example+unasked)
	var before, elsewhere, hub harness.Objects

	name, began := "knative-serving-apac-1", time.Now()
	for _, script := range blocks(t, page, "sh") {
		// The service accounts of the page are those of the test; names of roles are for one hub of many.
		out := sh.run(strings.NewReplacer("--side local", "--side local --subject-user "+h.User()+" --name "+h.User(),
			"fleet-access/hub", w.Subject()+" --name "+h.User()).Replace(script))
		t.Logf("%s%s(%s)", script, out, time.Since(began).Round(time.Second))
		switch {
		case before == nil && strings.Contains(script, "isthmus rbac"):
			before, elsewhere, hub = h.One.AllObjects(), h.Two.AllObjects(), h.AllObjects()
			h.Start()
		case strings.Contains(script, "apply -f knative-serving.yaml"):
			servingIsInstalled(t, h, name)
			if err := errors.Join(h.Two.SameAs(elsewhere), h.One.There(deployments, "knative-serving", "autoscaler-hpa")); err != nil {
				t.Error(err)
			}
			for _, difference := range h.AllObjects().Since(hub) {
				if difference != "new: Installation.isthmus.dev "+h.ID+"/"+name {
					t.Errorf("on the hub: %s", difference)
				}
			}
		case strings.Contains(script, "apply -f new.yaml"):
			servingIsInstalled(t, h, name)
			if err := errors.Join(h.One.Gone(deployments, "knative-serving", "autoscaler-hpa"), h.One.Gone("services", "knative-serving", "autoscaler-hpa"),
				holds(h.One, deployments, "knative-serving", "controller", "1.21.1", "metadata", "labels", "app.kubernetes.io/version")); err != nil {
				t.Error(err)
			}
			for _, o := range installed(h, h.One) {
				if o.GetLabels()["app.kubernetes.io/version"] == "1.20.3" {
					t.Errorf("of the former release: %s %s", o.GetKind(), o.GetName())
				}
			}
			rests(t, h, w)
		case strings.Contains(script, "delete installation"):
			h.Eventually(func() error {
				for _, difference := range h.One.AllObjects().Since(before) {
					if !strings.Contains(difference, h.User()) { // the rights, which became more for the upgrade
						return errors.New(difference)
					}
				}
				return nil
			})
		}
	}
	if h.Installation(name) != nil {
		t.Error("the page does not uninstall")
	}
}

// servingIsInstalled checks Knative Serving on the member One.
func servingIsInstalled(t *testing.T, h *harness.Hub, name string) {
	t.Helper()
	if err := errors.Join(ready(h, name), owned(h, h.One, name), available(h.One, "knative-serving", 5), available(h.One, "kourier-system", 1),
		holds(h.One, "namespaces", "", "knative-serving", "serverless", "metadata", "labels", "example.io/team"),
		h.One.There("gateways.gateway.networking.k8s.io", "kourier-system", "ingress"),
		h.One.There("certificates.v1alpha1.networking.internal.knative.dev", "knative-serving", "routing-serving-certs")); err != nil {
		t.Error(err)
	}
}

// available says that fewer Deployments than expected are in a namespace, or that one is not available.
func available(s *harness.Side, namespace string, atLeast int) error {
	all := s.List(deployments, namespace, "")
	var errs []error
	for _, d := range all {
		conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions")
		if !strings.Contains(fmt.Sprint(conditions), "status:True type:Available") {
			errs = append(errs, fmt.Errorf("Deployment %s is not available: %v", d.GetName(), conditions))
		}
	}
	if len(all) < atLeast {
		errs = append(errs, fmt.Errorf("%d Deployments are in %s on %s, expected %d", len(all), namespace, s.Name(), atLeast))
	}
	return errors.Join(errs...)
}

// Knative Eventing on the other member, as the example has it, and deleted right after a restart.
func TestI1I3I4I5I7_KnativeEventing(t *testing.T) {
	h := harness.NewHub(t)
	h.Own("knative-eventing")
	h.Reach(h.Two, "emea-1")
	before, elsewhere := h.Two.AllObjects(), h.One.AllObjects()
	packed := newShell(t, h, nil)
	for _, file := range []string{"1-eventing-crds", "2-eventing-core", "3-eventing-tls-networking", "4-in-memory-channel", "5-mt-channel-broker", "6-eventing-post-install"} {
		text := harness.ModuleFile(t, knative, "cmd/operator/kodata/knative-eventing/1.21.0/"+file+".yaml")
		if file == "3-eventing-tls-networking" {
			continue // for cert-manager, which is not there
		}
		packed.write("release/"+file+".yaml", text)
	}
	data := map[string][]byte{}
	packed.run("gzip -n release/*.yaml")
	files, err := filepath.Glob(filepath.Join(packed.dir, "release", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data[filepath.Base(file)] = []byte(read(t, file))
	}
	configMap, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "knative-eventing-1.21.0", "namespace": h.ID}, "binaryData": data})
	if err != nil {
		t.Fatal(err)
	}
	h.Install(string(configMap) + "\n---\n" + strings.ReplaceAll(read(t, "../../examples/installations/knative-eventing.yaml"), "fleet-system", h.ID))
	p := h.Start()
	name := "knative-eventing-emea-1"
	untilReady(h, name)
	if err := errors.Join(owned(h, h.Two, name), available(h.Two, "knative-eventing", 8), h.One.SameAs(elsewhere),
		holds(h.Two, deployments, "knative-eventing", "eventing-controller", 2, "spec", "replicas"),
		holds(h.Two, "configmaps", "knative-eventing", "config-logging", "debug", "data", "loglevel.controller")); err != nil {
		t.Error(err)
	}
	p.Kill()
	h.Start()
	uninstall(h, name, h.Two, before)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
