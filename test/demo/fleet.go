//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"isthmus.dev/isthmus/api/v1alpha1"
	accessprovider "isthmus.dev/isthmus/examples/access-provider"
	"isthmus.dev/isthmus/internal/controlplane"
)

// Whom the Isthmus of the fifth scene runs as: on the hub, and on each member, as NAMESPACE/NAME and as a user.
const (
	installerUser   = "isthmus-installer"
	installerOn     = "fleet-access/hub"
	installerOnName = "system:serviceaccount:fleet-access:hub"
)

// fleet is the fifth scene: the provider's cluster is a hub, and the tenants' clusters are its members.
type fleet struct {
	// hub is where the Installations are, acme and globex where they go.
	hub, acme, globex *side
	isthmus           *isthmus
	before            map[string]string // what acme has without it
}

// startFleet brings up the fifth scene, on the clusters of the second one.
func (w *world) startFleet(ctx context.Context) (err error) {
	w.say("\nThe provider's cluster as a hub: it installs a component on the clusters that the ClusterProfiles acme and globex name.\n")
	f := &fleet{hub: w.provider.in("fleet-system"), acme: w.tenants[0].cluster.in("agent-system"), globex: w.tenants[1].cluster.in("agent-system")}
	w.fleet = f
	profile, err := clusterInventory.crds(ctx, w.say)
	if err != nil {
		return err
	}
	w.say("Starting isthmus controller on it, with the rights that \"isthmus rbac --installations\" prints, and the access plugin of examples/access-provider.")
	// Without a controller manager namespaces do not go: acme gets one, since the component goes from there again.
	var starting sync.WaitGroup
	var errStart error
	starting.Go(func() { errStart = f.acme.StartComponent(ctx, controlplane.ControllerManager) })
	err = f.hub.Apply(ctx, append(append(profile, "\n---\n"...), file("fleet-manifests.yaml")...))
	starting.Wait()
	if err := errors.Join(err, errStart); err != nil {
		return err
	}
	installations, err := w.fleetFiles()
	if err != nil {
		return err
	}
	if err := grantRights(ctx, w.binary(), f.hub, installerUser, "--installations", installations, "--side", "local", "--instance", "installer"); err != nil {
		return err
	}
	access := filepath.Join(w.dir, "access")
	if err := writeAccessProvider(access); err != nil {
		return err
	}
	for _, member := range []*side{f.acme, f.globex} {
		if err := w.join(ctx, member, access, installations); err != nil {
			return err
		}
	}
	if f.before, err = f.acme.everything(ctx); err != nil {
		return err
	}
	f.isthmus, err = startController(w.binary(), w.dir, f.hub, installerUser, "--controllers", "installation", "--instance", "installer",
		"--cluster-id", f.hub.Name(), "--clusterprofile-provider-file", filepath.Join(access, "providers.yaml"))
	if err != nil {
		return err
	}
	return f.hub.Apply(ctx, file("fleet-acme.yaml"))
}

// fleetFiles writes the Installations, those after the upgrade too, and their manifests, and returns the paths, with commas.
func (w *world) fleetFiles() (string, error) {
	var paths []string
	for name, content := range map[string][]byte{
		"fleet-manifests.yaml": file("fleet-manifests.yaml"), "fleet-acme.yaml": file("fleet-acme.yaml"), "fleet-acme-2.yaml": upgraded(),
		"fleet-globex.yaml": file("fleet-globex.yaml"), "fleet-again.yaml": file("fleet-again.yaml"),
	} {
		path := filepath.Join(w.dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", err
		}
		paths = append(paths, path)
	}
	return strings.Join(paths, ","), nil
}

// upgraded is the Installation for acme with the component's second version.
func upgraded() []byte {
	return bytes.ReplaceAll(file("fleet-acme.yaml"), []byte("agent-1"), []byte("agent-2"))
}

// writeAccessProvider writes the plugin and the file that says how it is run into a folder, as they are in examples; the
// folder of tokens is one in there.
func writeAccessProvider(dir string) error {
	tokens := filepath.Join(dir, "tokens")
	if err := os.MkdirAll(tokens, 0o700); err != nil {
		return err
	}
	for name, mode := range map[string]os.FileMode{"token-files.sh": 0o700, "providers.yaml": 0o600} {
		content, err := accessprovider.Files.ReadFile(name)
		if err != nil {
			return err
		}
		content = bytes.ReplaceAll(content, []byte("/var/run/isthmus/tokens"), []byte(tokens))
		if err := os.WriteFile(filepath.Join(dir, name), content, mode); err != nil {
			return err
		}
	}
	return nil
}

// join makes a cluster a member: a service account with the rights for what is installed there, whose token the access plugin
// finds, and a ClusterProfile on the hub.
func (w *world) join(ctx context.Context, member *side, access, installations string) error {
	namespace, name, _ := strings.Cut(installerOn, "/")
	err := member.Apply(ctx, fmt.Appendf(nil, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s, namespace: %[1]s}}", namespace, name))
	if err != nil {
		return err
	}
	if err := grantRights(ctx, w.binary(), member, installerOn, "--installations", installations, "--side", "remote",
		"--clusterprofile", w.fleet.hub.namespace+"/"+member.Name(), "--name", installerUser); err != nil {
		return err
	}
	path, err := member.ServiceAccountKubeconfig(ctx, namespace, name)
	if err != nil {
		return err
	}
	config, err := controlplane.LoadConfig(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(access, "tokens", member.Name()), []byte(config.BearerToken), 0o600); err != nil {
		return err
	}
	example, err := accessprovider.Files.ReadFile("clusterprofile.yaml")
	if err != nil {
		return err
	}
	profile := strings.NewReplacer("https://apac-1.example.com:6443", member.URL(), "apac-1", member.Name(),
		"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", base64.StdEncoding.EncodeToString(config.CAData)).Replace(string(example))
	if err := w.fleet.hub.Apply(ctx, []byte(profile)); err != nil {
		return err
	}
	return w.fleet.hub.patch(ctx, profiles, member.Name(), profile, "status")
}

// printFleet prints how the Installations stand, and what is installed where.
func (w *world) printFleet(ctx context.Context) {
	w.printObjects(ctx, w.fleet.hub, "installations --namespace "+w.fleet.hub.namespace)
	for _, member := range []*side{w.fleet.acme, w.fleet.globex} {
		w.say("  In %s:", member.Name())
		w.printObjects(ctx, member, "configmaps,services,serviceaccounts --namespace "+member.namespace+" --no-headers --selector "+v1alpha1.InstalledByLabel)
	}
}
