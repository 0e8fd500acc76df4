//go:build unix

// Package installation proves the contract for Installations: a hub and two members, real clusters that run workloads on
// paper, and an Isthmus that holds only the RBAC that is generated for what it installs.
package installation

import (
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
