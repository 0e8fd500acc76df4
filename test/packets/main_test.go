//go:build linux

// Package packets proves chapter E of the contract with packets: three real clusters whose EndpointSlices Isthmus wrote, and
// their pod networks (test/podnet), in which the addresses of these slices are dialled. It takes root.
package packets

import (
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
