//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/config/crd"
	"isthmus.dev/isthmus/internal/controlplane"
)

// Whom the Isthmuses of the third scene run as: the consumer's, on both clusters, and the provider's.
const (
	controllerUser = "isthmus-controller"
	tenancyUser    = "isthmus-tenancy"
)

// peering is the third scene: Kubernetes objects on both clusters say what crosses.
type peering struct {
	// consumer and provider are the clusters, seen in the namespace that is offloaded and in its counterpart.
	consumer, provider *side
	// reflects carries objects; consents gives namespaces.
	reflects, consents *isthmus
}

// startPeering brings up the third scene, on the clusters of the first one.
func (w *world) startPeering(ctx context.Context) (err error) {
	w.say("\nThe same two clusters as consumer and provider of namespaces: objects say what crosses, and the provider consents.\n")
	w.peering = &peering{consumer: w.consumer.in("shop"), provider: w.provider.in("consumer-shop")}
	for _, s := range []*side{w.consumer, w.provider} {
		if err := applyCRDs(ctx, s); err != nil {
			return err
		}
	}
	w.say("Starting isthmus controller on both, with the rights that \"isthmus rbac\" prints for a Crossing and a Consumer.")
	p := w.peering
	for _, grant := range []struct {
		to         *side
		user, side string
		flag, file string
	}{
		{w.provider, tenancyUser, "provider", "--consumers", "peering-provider.yaml"},
		{w.consumer, controllerUser, "local", "--crossings", "peering-consumer.yaml"},
	} {
		path := filepath.Join(w.dir, grant.file)
		if err := os.WriteFile(path, file(grant.file), 0o600); err != nil {
			return err
		}
		if err := grantRights(ctx, w.binary(), grant.to, grant.user, grant.flag, path, "--side", grant.side, "--instance", "controller", "--endpoints"); err != nil {
			return err
		}
	}
	if p.consents, err = startController(w.binary(), w.dir, w.provider, tenancyUser, "--controllers", "tenancy,endpoints"); err != nil {
		return err
	}
	if p.reflects, err = startController(w.binary(), w.dir, w.consumer, controllerUser, "--controllers", "reflection,endpoints", "--cluster-id", w.consumer.Name()); err != nil {
		return err
	}
	w.controller.Go(func() { runController(ctx, p.provider) })
	if err := w.provider.Apply(ctx, file("peering-provider.yaml")); err != nil {
		return err
	}
	credential, err := w.credential()
	if err != nil {
		return err
	}
	return errors.Join(w.consumer.Apply(ctx, credential), w.consumer.Apply(ctx, file("peering-consumer.yaml")))
}

// applyCRDs makes a cluster know the kinds that configure isthmus controller.
func applyCRDs(ctx context.Context, s *side) error {
	entries, err := crd.Files.ReadDir(".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		content, err := crd.Files.ReadFile(entry.Name())
		if err != nil {
			return err
		}
		if err := s.Apply(ctx, content); err != nil {
			return err
		}
	}
	return s.Apply(ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: isthmus-system}}"))
}

// credential returns the Secret by which the consumer's Isthmus reaches the provider.
func (w *world) credential() ([]byte, error) {
	path, err := w.provider.UserKubeconfig(controllerUser)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": w.provider.Name(), "namespace": "isthmus-system"},
		"stringData": map[string]string{"kubeconfig": string(kubeconfig)},
	})
}

// startController runs isthmus controller on a cluster, as a user.
func startController(binary, dir string, on *side, user string, flags ...string) (*isthmus, error) {
	kubeconfig, err := on.UserKubeconfig(user)
	if err != nil {
		return nil, err
	}
	return launch(binary, filepath.Join(dir, user+".log"), append([]string{"controller", "--kubeconfig", kubeconfig}, flags...)...)
}

// condition returns nil when an object of the API of controller mode has a condition that holds, of what it is now.
func (s *side) condition(ctx context.Context, kind, name, condition string) error {
	return s.conditionIs(ctx, kind, name, condition, metav1.ConditionTrue, "", "")
}

// conditionIs returns nil when a condition has a status, a reason if one is expected, and a part in its message.
func (s *side) conditionIs(ctx context.Context, kind, name, condition string, status metav1.ConditionStatus, reason, part string) error {
	object, err := s.get(ctx, isthmusKind(kind), name)
	if err != nil {
		return err
	}
	conditions, _ := field(object, "status.conditions").([]any)
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		message, _ := c["message"].(string)
		speaksOfNow := c["observedGeneration"] == nil || c["observedGeneration"] == object.GetGeneration()
		if c["type"] == condition && c["status"] == string(status) && (reason == "" || c["reason"] == reason) && strings.Contains(message, part) && speaksOfNow {
			return nil
		}
	}
	return fmt.Errorf("%s of %s %s is not %s %s %s: %v", condition, kind, name, status, reason, part, conditions)
}

// printPeering prints how the objects that say what crosses stand.
func (w *world) printPeering(ctx context.Context) {
	w.printObjects(ctx, w.consumer, "remoteclusters,crossings")
	w.printObjects(ctx, w.consumer, "namespaceoffloadings --all-namespaces")
}

// printObjects prints what kubectl get says on a cluster.
func (w *world) printObjects(ctx context.Context, on *side, kinds string) {
	arguments := append(strings.Fields("get "+kinds), "--kubeconfig", on.Kubeconfig())
	out, err := exec.CommandContext(ctx, on.Binaries().Path(controlplane.Kubectl), arguments...).CombinedOutput()
	if err != nil {
		w.say("  %s can't be listed: %v", kinds, err)
	}
	w.say("  %s\n", strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "\n  "))
}
