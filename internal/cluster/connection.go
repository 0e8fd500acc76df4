package cluster

import (
	"context"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
)

// A connection that hangs is noticed after pingAfter+pingWait (HTTP/2), a server that hangs after requestTimeout.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	requestTimeout   = 30 * time.Second
	pingAfter        = 15 * time.Second
	pingWait         = 10 * time.Second
	idleTimeout      = 90 * time.Second
)

// connection is how requests travel under one reading of the configuration. Each Cluster has its own, so that no
// cluster waits for another one's.
type connection struct {
	*settings
	base *http.Transport
	rt   http.RoundTripper
	ctx  context.Context // ends when the requests in flight have to move to another server
	move context.CancelFunc
}

// newConnection builds the transport. client-go's own constructor is not used: it caches transports for the whole
// process, and its HTTP/2 health check takes 45 s.
func newConnection(s *settings) (*connection, error) {
	tc, err := s.config.TransportConfig()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := transport.TLSConfigFor(tc)
	if err != nil {
		return nil, err
	}
	c := &connection{settings: s}
	c.base = &http.Transport{
		Proxy:                 utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment),
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: pingAfter}).DialContext,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   handshakeTimeout,
		DisableCompression:    tc.DisableCompression,
		MaxIdleConnsPerHost:   25,
		IdleConnTimeout:       idleTimeout,
		ForceAttemptHTTP2:     true,
		ExpectContinueTimeout: time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait, WriteByteTimeout: requestTimeout},
	}
	if tc.Proxy != nil {
		c.base.Proxy = tc.Proxy
	}
	if tc.DialHolder != nil {
		c.base.DialContext = tc.DialHolder.Dial
	}
	if c.rt, err = transport.HTTPWrappersForConfig(tc, c.base); err != nil {
		return nil, err
	}
	if s.config.ExecProvider != nil {
		c.rt = abandonable{c.rt}
	}
	c.ctx, c.move = context.WithCancel(context.Background())
	return c, nil
}

// retire lets the connections close when their requests are done; if the server moved, the requests are ended, so that
// no watch goes on reading from the old one.
func (c *connection) retire(moved bool) {
	if moved {
		c.move()
	}
	c.base.CloseIdleConnections()
}

// abandonable returns when the request's context ends, also if what it wraps does not: an access plugin that hangs runs
// inside RoundTrip, without a context.
type abandonable struct{ rt http.RoundTripper }

func (a abandonable) RoundTrip(req *http.Request) (*http.Response, error) {
	type outcome struct {
		resp *http.Response
		err  error
	}
	done := make(chan outcome)
	go func() {
		resp, err := a.rt.RoundTrip(req)
		select {
		case done <- outcome{resp, err}:
		case <-req.Context().Done():
			if resp != nil {
				resp.Body.Close()
			}
		}
	}()
	select {
	case o := <-done:
		return o.resp, o.err
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}
