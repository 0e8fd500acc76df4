package podnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Net are the pod networks of some clusters.
type Net struct {
	plan     Plan
	gateways map[string]*gateway
	pods     []*Pod
}

// space is a network namespace without a name: it is there for as long as something holds it open.
type space struct {
	ns    netns.NsHandle
	links *netlink.Handle
}

// gateway is the namespace that a cluster's packets pass.
type gateway struct {
	*space
	rules *rules
	pods  int
}

// New makes the gateways and the links between them. The error is ErrNotHere where that can't be done at all. What New
// made is removed by Close, also after an error.
func New(plan Plan) (n *Net, err error) {
	n = &Net{plan: plan, gateways: map[string]*gateway{}}
	if os.Geteuid() != 0 {
		return n, fmt.Errorf("%w: that takes root", ErrNotHere)
	}
	for cluster := range plan.Pods {
		s, err := newSpace()
		if err != nil {
			return n, err
		}
		g := &gateway{space: s}
		n.gateways[cluster] = g
		if g.rules, err = newRules(int(g.ns)); err != nil {
			return n, err
		}
	}
	number := 1 // 0 are the pods' sides of the gateways
	for cluster, links := range plan.Links {
		for other := range links {
			if cluster > other || plan.Links[other] == nil {
				continue // the other end makes it
			}
			if err := n.connect(cluster, other, number); err != nil {
				return n, fmt.Errorf("linking %s and %s: %w", cluster, other, err)
			}
			number++
		}
	}
	return n, nil
}

// Close removes everything.
func (n *Net) Close() {
	for _, p := range n.pods {
		p.close()
	}
	for _, g := range n.gateways {
		g.close()
	}
	n.pods, n.gateways = nil, map[string]*gateway{}
}

// newSpace makes a namespace that forwards packets, and in which addresses are of use at once.
func newSpace() (*space, error) {
	s := &space{ns: netns.None()}
	err := inside(netns.None(), func() (err error) {
		if s.ns, err = netns.New(); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		for setting, value := range map[string]string{
			"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1",
			"net/ipv6/conf/all/accept_dad": "0", "net/ipv6/conf/default/accept_dad": "0",
			"net/ipv4/conf/all/rp_filter": "0", "net/ipv4/conf/default/rp_filter": "0",
		} {
			if err := os.WriteFile("/proc/sys/"+setting, []byte(value), 0); err != nil {
				return fmt.Errorf("setting %s: %w", setting, err)
			}
		}
		return nil
	})
	if err == nil {
		s.links, err = netlink.NewHandleAt(s.ns)
	}
	if err == nil {
		err = s.up("lo")
	}
	if err != nil {
		s.close()
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSYS) {
			err = fmt.Errorf("%w: %w", ErrNotHere, err)
		}
		return nil, err
	}
	return s, nil
}

func (s *space) close() {
	if s.links != nil {
		s.links.Close()
	}
	if s.ns.IsOpen() {
		_ = s.ns.Close()
	}
}

// inside runs do in a namespace; None: in one that do makes. Sockets that do makes stay in it.
func inside(ns netns.NsHandle, do func() error) error {
	done := make(chan error)
	go func() {
		// A thread that does not come back ends with this goroutine.
		runtime.LockOSThread()
		here, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("finding this thread's network namespace: %w", err)
			return
		}
		defer func() { _ = here.Close() }()
		if ns.IsOpen() {
			err = netns.Set(ns)
		}
		if err == nil {
			err = do()
		}
		if netns.Set(here) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// up sets a device up.
func (s *space) up(device string) error {
	link, err := s.links.LinkByName(device)
	if err == nil {
		err = s.links.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("setting %s up: %w", device, err)
	}
	return nil
}

// wire makes a pair of devices, one in each namespace, and sets both up.
func wire(a *space, deviceA string, b *space, deviceB string) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = deviceA
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: deviceB, PeerNamespace: netlink.NsFd(b.ns)}
	if err := a.links.LinkAdd(pair); err != nil {
		return fmt.Errorf("making the devices %s and %s: %w", deviceA, deviceB, err)
	}
	if err := errors.Join(a.up(deviceA), b.up(deviceB)); err != nil {
		return err
	}
	return errors.Join(a.carries(deviceA), b.carries(deviceB))
}

// carries waits until a device takes packets: until then it loses them, and those who sent them try again seconds later.
func (s *space) carries(device string) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		link, err := s.links.LinkByName(device)
		if err != nil || link.Attrs().OperState == netlink.OperUp {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the device %s is %s after a minute", device, link.Attrs().OperState)
		}
	}
}

// address gives a device an address that is usable at once.
func (s *space) address(device string, p netip.Prefix) error {
	link, err := s.links.LinkByName(device)
	if err == nil {
		address := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD
		}
		err = s.links.AddrAdd(link, address)
	}
	if err != nil {
		return fmt.Errorf("giving %s the address %s: %w", device, p, err)
	}
	return nil
}

// route sends what is for a prefix over a device, to a neighbour there; an invalid one: to the address itself.
func (s *space) route(to netip.Prefix, device string, neighbour netip.Addr) error {
	link, err := s.links.LinkByName(device)
	if err == nil {
		route := &netlink.Route{Dst: ipNet(to), LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK}
		if neighbour.IsValid() {
			route.Gw, route.Scope, route.Flags = neighbour.AsSlice(), netlink.SCOPE_UNIVERSE, int(netlink.FLAG_ONLINK)
		}
		err = s.links.RouteAdd(route)
	}
	if err != nil {
		return fmt.Errorf("the route to %s over %s: %w", to, device, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// ends are the addresses of the two ends of a link, in IPv4 and IPv6; those of gateways towards their pods are the first ones of
// number 0. None of them goes beyond its device.
func ends(number int) [2][2]netip.Prefix {
	v4, v6 := [4]byte{169, 254, byte(100 + number)}, [16]byte{0: 0xfe, 1: 0x80, 13: byte(100 + number)}
	var all [2][2]netip.Prefix
	for i := range all {
		v4[3], v6[15] = byte(1+i), byte(1+i)
		all[i] = [2]netip.Prefix{netip.PrefixFrom(netip.AddrFrom4(v4), 24), netip.PrefixFrom(netip.AddrFrom16(v6), 64)}
	}
	return all
}

// connect makes the link between two clusters.
func (n *Net) connect(a, b string, number int) error {
	one, other := n.gateways[a], n.gateways[b]
	if one == nil || other == nil {
		return errors.New("one of them has no pods")
	}
	if err := wire(one.space, b, other.space, a); err != nil {
		return err
	}
	addresses := ends(number)
	for i, g := range []*gateway{one, other} {
		near, far := []string{a, b}[i], []string{b, a}[i]
		does, err := n.plan.endOf(near, far)
		if err != nil {
			return err
		}
		for _, address := range addresses[i] {
			if err := g.address(far, address); err != nil {
				return err
			}
		}
		for _, to := range does.routes {
			neighbour := addresses[1-i][0].Addr()
			if to.Addr().Is6() {
				neighbour = addresses[1-i][1].Addr()
			}
			if err := g.route(to, far, neighbour); err != nil {
				return err
			}
		}
		if err := g.rules.link(far, does); err != nil {
			return err
		}
	}
	return nil
}

// Cut makes the link between two clusters lose every packet, and mends it.
func (n *Net) Cut(a, b string, lost bool) error {
	return errors.Join(n.gateways[a].rules.drop(b, lost), n.gateways[b].rules.drop(a, lost))
}

// Came returns how many TCP packets a cluster's gateway took in from another one.
func (n *Net) Came(cluster, from string) (uint64, error) {
	return n.gateways[cluster].rules.packets(from)
}

// Left lists the namespaces that this process holds open; the machine's own is not among them.
func Left() (open []string, err error) {
	own, err := os.Readlink("/proc/1/ns/net")
	if err != nil {
		if own, err = os.Readlink("/proc/self/ns/net"); err != nil {
			return nil, err
		}
	}
	for _, pattern := range []string{"/proc/self/fd", "/proc/self/task"} {
		entries, err := os.ReadDir(pattern)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			path := pattern + "/" + entry.Name()
			if pattern == "/proc/self/task" {
				path += "/ns/net"
			}
			target, err := os.Readlink(path)
			if err == nil && target != own && len(target) > 4 && target[:4] == "net:" && !slices.Contains(open, target) {
				open = append(open, target)
			}
		}
	}
	return open, nil
}
