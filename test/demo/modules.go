//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// module is a Go module that ships CRDs. None needs a newer Go than we do.
type module struct {
	name, sum string
	what      string // they are
	megabytes int    // to download
	files     []string
}

var (
	argoCD = module{
		name: "github.com/argoproj/argo-cd/v3@v3.4.13", sum: "h1:kmnF4nE5SQ83OhtdX6DMmLSpH0eRIa1gNYdCLNHqB+A=",
		what: "Argo CD's Applications", megabytes: 27,
		files: []string{"manifests/crds/application-crd.yaml"},
	}
	gatewayAPI = module{
		name: "sigs.k8s.io/gateway-api@v1.5.0", sum: "h1:duoo14Ky/fJXpjpmyMISE2RTBGnfCg8zICfTYLTnBJA=",
		what: "Gateway API", megabytes: 5,
		files: []string{
			"config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml",
			"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
		},
	}
	prometheusOperator = module{
		name: "github.com/prometheus-operator/prometheus-operator@v0.85.0", sum: "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
		what: "Prometheus rules", megabytes: 4,
		files: []string{"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"},
	}
	clusterInventory = module{
		name: "sigs.k8s.io/cluster-inventory-api@v0.1.3", sum: "h1:E7GY85hOIIPdALNdTO9Cbs2PXqjotWq6afe/NTwgCJo=",
		what: "ClusterProfiles", megabytes: 1,
		files: []string{"config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml"},
	}
)

// crds returns a module's CRDs, from the Go module cache, where it is downloaded to if need be.
func (m module) crds(ctx context.Context, say func(string, ...any)) ([]byte, error) {
	say("Fetching the CRDs of %s from %s (%d MB, once).", m.what, m.name, m.megabytes)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", m.name)
	cmd.Dir = os.TempDir() // not in our module, which does not require it
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	answer, err := cmd.Output()
	var downloaded struct{ Dir, Sum, Error string }
	if decodeErr := json.Unmarshal(answer, &downloaded); err != nil || decodeErr != nil {
		return nil, fmt.Errorf("go mod download %s: %w %s%s", m.name, err, downloaded.Error, stderr.String())
	}
	if downloaded.Sum != m.sum {
		return nil, fmt.Errorf("%s has the checksum %s, expected %s", m.name, downloaded.Sum, m.sum)
	}
	var all bytes.Buffer
	for _, name := range m.files {
		content, err := os.ReadFile(filepath.Join(downloaded.Dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&all, "---\n%s\n", content)
	}
	return all.Bytes(), nil
}
