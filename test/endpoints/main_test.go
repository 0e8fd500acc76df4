//go:build unix

// Package endpoints proves chapter E of the contract between real clusters, each with an Isthmus that holds only the RBAC that
// is generated for it.
package endpoints

import (
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
