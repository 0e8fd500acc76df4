//go:build unix

// Package controller proves the contract for isthmus controller: several real clusters, each with an Isthmus that holds only
// the RBAC that is generated for it.
package controller

import (
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
