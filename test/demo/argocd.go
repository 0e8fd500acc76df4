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

// Argo CD's own module ships its CRDs. This version needs no newer Go than we do.
const (
	argoCD    = "github.com/argoproj/argo-cd/v3@v3.4.13"
	argoCDSum = "h1:kmnF4nE5SQ83OhtdX6DMmLSpH0eRIa1gNYdCLNHqB+A="
)

// applicationCRD returns the CRD of Argo CD's Applications, from its module in the Go module cache, where it is
// downloaded to if need be.
func applicationCRD(ctx context.Context, say func(string, ...any)) ([]byte, error) {
	say("Fetching the CRD of Argo CD's Applications from %s (27 MB, once).", argoCD)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", argoCD)
	cmd.Dir = os.TempDir() // not in our module, which does not require it
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	answer, err := cmd.Output()
	var module struct{ Dir, Sum, Error string }
	if decodeErr := json.Unmarshal(answer, &module); err != nil || decodeErr != nil {
		return nil, fmt.Errorf("go mod download %s: %w %s%s", argoCD, err, module.Error, stderr.String())
	}
	if module.Sum != argoCDSum {
		return nil, fmt.Errorf("%s has the checksum %s, expected %s", argoCD, module.Sum, argoCDSum)
	}
	return os.ReadFile(filepath.Join(module.Dir, "manifests", "crds", "application-crd.yaml"))
}
