//go:build !linux

package podnet

import (
	"context"
	"fmt"
	"net/netip"
)

// Net are the pod networks of some clusters.
type Net struct{}

// New fails: this is not Linux.
func New(Plan) (*Net, error) { return &Net{}, fmt.Errorf("%w: that takes Linux", ErrNotHere) }

// Close has nothing to do.
func (*Net) Close() {}

// Pod is a pod of a cluster.
type Pod struct{}

// Pod fails.
func (*Net) Pod(string, string, ...netip.Addr) (*Pod, error) { return nil, ErrNotHere }

// Ask fails.
func (*Pod) Ask(context.Context, netip.Addr) (string, error) { return "", ErrNotHere }

// Cut fails.
func (*Net) Cut(string, string, bool) error { return ErrNotHere }

// Came fails.
func (*Net) Came(string, string) (uint64, error) { return 0, ErrNotHere }
