//go:build unix

// Package e2e proves the contract on real control planes, clause by clause: each test carries its clause in its name.
package e2e

import (
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
