package podnet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// Pods of three clusters with one and the same pod network reach each other, under the addresses that the plan's links say,
// over the link that they say, in IPv4 and IPv6; and nothing is left when that ends.
func TestPodsReachEachOther(t *testing.T) {
	n := Start(t, Triangle("hub", "one", "two"))
	pods := map[string]*Pod{}
	for _, cluster := range []string{"hub", "one", "two"} {
		for host := 2; host < 4; host++ {
			name := fmt.Sprintf("%s-%d", cluster, host)
			pod, err := n.Pod(cluster, name, netip.MustParseAddr(fmt.Sprintf("10.10.0.%d", host)), netip.MustParseAddr(fmt.Sprintf("fd10::%d", host)))
			if err != nil {
				t.Fatal(err)
			}
			pods[name] = pod
		}
	}
	for _, tt := range []struct{ from, at, who, over string }{
		{"hub-2", "10.10.0.3", "hub-3", ""}, {"hub-2", "fd10::3", "hub-3", ""},
		{"hub-2", "10.71.0.2", "one-2", "hub one"}, {"hub-2", "fd71::2", "one-2", "hub one"},
		{"hub-2", "10.72.0.3", "two-3", "hub two"}, {"one-3", "10.73.0.2", "hub-2", "hub one"},
		{"two-2", "10.74.0.2", "hub-2", "hub two"}, {"two-2", "fd74::3", "hub-3", "hub two"},
		{"two-2", "10.76.0.2", "one-2", "one two"}, {"two-2", "fd76::3", "one-3", "one two"},
		{"one-2", "10.75.0.3", "two-3", "one two"}, {"one-2", "fd75::2", "two-2", "one two"},
		{"two-2", "10.94.0.2", "one-2", "hub one, hub two"}, {"two-3", "fd94:0:0:90::3", "one-3", "hub one, hub two"},
		{"one-2", "10.93.0.2", "two-2", "hub one, hub two"}, {"one-3", "fd92:0:0:91::3", "two-3", "hub one, hub two"},
	} {
		before := passed(t, n)
		if err := ask(t, pods[tt.from], tt.at, tt.who); err != nil {
			t.Errorf("%s at %s: %v", tt.from, tt.at, err)
		}
		if over := moved(before, passed(t, n)); over != tt.over {
			t.Errorf("%s at %s went over %q, expected %q", tt.from, tt.at, over, tt.over)
		}
	}

	for _, lost := range []bool{true, false} {
		if err := n.Cut("two", "one", lost); err != nil {
			t.Fatal(err)
		}
		if err := ask(t, pods["two-2"], "10.76.0.2", "one-2"); (err != nil) != lost {
			t.Errorf("lost: %t: %v", lost, err)
		}
		if err := ask(t, pods["two-2"], "10.94.0.2", "one-2"); err != nil {
			t.Error(err)
		}
	}
	n.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left, err := Left()
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("these namespaces are left: %v", left)
		}
	}
}

func ask(t *testing.T, from *Pod, at, who string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	got, err := from.Ask(ctx, netip.MustParseAddr(at))
	if err == nil && got != who {
		return fmt.Errorf("%q answered, expected %q", got, who)
	}
	return err
}

// passed returns how many packets each link has carried, in a fixed order, when the last of them has come.
func passed(t *testing.T, n *Net) (packets [3]uint64) {
	for {
		before := count(t, n)
		time.Sleep(20 * time.Millisecond)
		if packets = count(t, n); packets == before {
			return packets
		}
	}
}

func count(t *testing.T, n *Net) (packets [3]uint64) {
	for i, link := range links {
		for j := range link {
			came, err := n.Came(link[j], link[1-j])
			if err != nil {
				t.Fatal(err)
			}
			packets[i] += came
		}
	}
	return packets
}

var links = [3][2]string{{"hub", "one"}, {"hub", "two"}, {"one", "two"}}

// moved names the links that carried packets in between.
func moved(before, after [3]uint64) (names string) {
	for i, link := range links {
		if after[i] != before[i] {
			if names != "" {
				names += ", "
			}
			names += link[0] + " " + link[1]
		}
	}
	return names
}

// A plan that makes no sense is refused, and leaves nothing.
func TestABadPlan(t *testing.T) {
	n, err := New(Plan{
		Pods:  map[string][]netip.Prefix{"one": nil},
		Links: map[string]map[string]v1alpha1.ClusterLinkSpec{"one": {"two": {}}, "two": {"one": {}}},
	})
	t.Cleanup(n.Close)
	if errors.Is(err, ErrNotHere) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err == nil {
		t.Fatal("it was taken")
	}
	n.Close()
	if left, err := Left(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
