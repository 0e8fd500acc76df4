package podnet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// Pod is a namespace behind a cluster's gateway, with an HTTP server that answers with the pod's name.
type Pod struct {
	*space
	server *http.Server
}

// Pod makes a pod of a cluster, at addresses of its network.
func (n *Net) Pod(cluster, name string, addresses ...netip.Addr) (*Pod, error) {
	p, err := n.newPod(n.gateways[cluster], name, addresses)
	if err != nil {
		return nil, fmt.Errorf("the pod %s of %s: %w", name, cluster, err)
	}
	return p, nil
}

func (n *Net) newPod(g *gateway, name string, addresses []netip.Addr) (p *Pod, err error) {
	if g == nil {
		return nil, errors.New("there is no such cluster")
	}
	p = &Pod{}
	if p.space, err = newSpace(); err != nil {
		return nil, err
	}
	n.pods = append(n.pods, p)
	g.pods++
	device := "pod" + strconv.Itoa(g.pods)
	if err := wire(g.space, device, p.space, "eth0"); err != nil {
		return nil, err
	}
	for i, gateway := range ends(0)[0] {
		host := netip.PrefixFrom(gateway.Addr(), gateway.Addr().BitLen())
		if i == 1 {
			host = gateway
		}
		if err := g.address(device, host); err != nil {
			return nil, err
		}
	}
	for _, a := range addresses {
		whole, everything, gateway := netip.PrefixFrom(a, a.BitLen()), netip.PrefixFrom(netip.IPv4Unspecified(), 0), ends(0)[0][0].Addr()
		if a.Is6() {
			everything, gateway = netip.PrefixFrom(netip.IPv6Unspecified(), 0), ends(0)[0][1].Addr()
		}
		if err := errors.Join(p.address("eth0", whole), p.route(everything, "eth0", gateway), g.route(whole, device, netip.Addr{})); err != nil {
			return nil, err
		}
	}
	return p, p.serve(name)
}

// serve starts the pod's server.
func (p *Pod) serve(name string) error {
	var listener net.Listener
	err := inside(p.ns, func() (err error) {
		listener, err = net.Listen("tcp", ":"+strconv.Itoa(Port))
		return err
	})
	if err != nil {
		return err
	}
	p.server = &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }),
	}
	go func() { _ = p.server.Serve(listener) }()
	return nil
}

// Ask asks, from the pod, who is at an address, over a connection of its own.
func (p *Pod) Ask(ctx context.Context, address netip.Addr) (name string, err error) {
	at := netip.AddrPortFrom(address, Port).String()
	var conn net.Conn
	err = inside(p.ns, func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", at)
		return err
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+at+"\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	return string(body), errors.Join(err, response.Body.Close())
}

func (p *Pod) close() {
	if p.server != nil {
		_ = p.server.Close()
	}
	p.space.close()
}
