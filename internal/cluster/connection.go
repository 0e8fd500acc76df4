package cluster

import (
	"context"
	"crypto/tls"
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
	rt        http.RoundTripper
	closeIdle func()
	ctx       context.Context // ends when the requests in flight have to move to another server
	move      context.CancelFunc
}

// newConnection builds the transport. client-go's own constructor is not used: it caches transports for the whole
// process, and its HTTP/2 health check takes 45 s.
func newConnection(s *settings) (*connection, error) {
	config := *s.config
	config.ExecProvider = nil
	tc, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	c := &connection{settings: s}
	c.ctx, c.move = context.WithCancel(context.Background())
	if s.config.ExecProvider == nil || config.BearerToken != "" { // as client-go has it: a token wins
		c.rt, c.closeIdle, err = newTransport(tc, nil)
		return c, err
	}
	plugin, err := newPlugin(s.config)
	if err != nil {
		return nil, err
	}
	p := &plugged{plugin: plugin, life: c.ctx, make: func(cert *tls.Certificate) (http.RoundTripper, func(), error) {
		return newTransport(tc, cert)
	}}
	if _, err := p.transport(&credential{}); err != nil { // what is wrong with the configuration shows now
		return nil, err
	}
	c.rt, c.closeIdle = p, p.closeIdle
	return c, nil
}

// newTransport builds one transport, which shows cert to the server, unless it is nil, and returns how to let its connections
// go.
func newTransport(tc *transport.Config, cert *tls.Certificate) (http.RoundTripper, func(), error) {
	tlsConfig, err := transport.TLSConfigFor(tc)
	if err != nil {
		return nil, nil, err
	}
	if cert != nil {
		if tlsConfig == nil {
			tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	base := &http.Transport{
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
		base.Proxy = tc.Proxy
	}
	if tc.DialHolder != nil {
		base.DialContext = tc.DialHolder.Dial
	}
	rt, err := transport.HTTPWrappersForConfig(tc, base)
	return rt, base.CloseIdleConnections, err
}

// retire lets the connections close when their requests are done; if the server moved, the requests are ended, so that
// no watch goes on reading from the old one.
func (c *connection) retire(moved bool) {
	if moved {
		c.move()
	}
	c.closeIdle()
}
