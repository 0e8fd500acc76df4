package leader

import (
	"strings"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	good := Times{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change func(*Times)
		flag   string
	}{
		"no lease":                      {func(t *Times) { t.LeaseDuration = 0 }, "lease-duration 0s"},
		"a Lease counts seconds":        {func(t *Times) { t.LeaseDuration = 15500 * time.Millisecond }, "lease-duration 15.5s"},
		"no time to stop writing":       {func(t *Times) { t.RenewDeadline = t.LeaseDuration }, "renew-deadline 15s"},
		"no time for a second try":      {func(t *Times) { t.RetryPeriod = 9 * time.Second }, "renew-deadline 10s"},
		"trying without end":            {func(t *Times) { t.RetryPeriod = 0 }, "retry-period 0s"},
		"a deadline that has passed":    {func(t *Times) { t.RenewDeadline = -1 }, "renew-deadline -1ns"},
		"a lease of less than a second": {func(t *Times) { t.LeaseDuration = time.Millisecond }, "lease-duration 1ms"},
	} {
		times := good
		c.change(&times)
		if err := times.Check(); err == nil || !strings.HasPrefix(err.Error(), "--leader-elect-"+c.flag) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A gate is shut as soon as one of the two clocks says that the renewal has run out.
func TestP3_GateByBothClocks(t *testing.T) {
	g := NewGate(10 * time.Second)
	if g.Check() == nil {
		t.Error("open before the first renewal")
	}
	at := time.Now()
	g.open(at)
	if err := g.Check(); err != nil {
		t.Error(err)
	}
	wall := func(d time.Duration) time.Time { return at.Add(d).Round(0) } // without the monotonic clock
	for _, c := range []struct {
		name string
		at   time.Time
		now  time.Time
		want bool
	}{
		{"in time", at, at.Add(9 * time.Second), false},
		{"late", at, at.Add(10 * time.Second), true},
		{"late by the wall clock alone", wall(0), wall(11 * time.Second), true},
		{"in time by the wall clock alone", wall(0), wall(9 * time.Second), false},
	} {
		if got := g.passed(c.at, c.now); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
	g.shut()
	if g.Check() == nil {
		t.Error("open after it was shut")
	}
}
