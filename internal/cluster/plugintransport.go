package cluster

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"sync"
)

// plugged sends requests with the credential of an access plugin, and repeats one that is refused once with a fresh one.
type plugged struct {
	plugin *plugin
	life   context.Context
	// make returns a transport that shows a client certificate, and how to let its connections go.
	make func(*tls.Certificate) (http.RoundTripper, func(), error)

	mu   sync.Mutex
	cert *tls.Certificate // of rt
	rt   http.RoundTripper
	idle func()
}

func (p *plugged) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, cred, err := p.send(req, req.Body)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	if !p.plugin.refused(cred) || req.Context().Err() != nil {
		return resp, nil
	}
	body, ok := replay(req)
	if !ok {
		return resp, nil
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close()
	resp, _, err = p.send(req, body)
	return resp, err
}

func (p *plugged) send(req *http.Request, body io.ReadCloser) (*http.Response, *credential, error) {
	cred, err := p.plugin.credential(req.Context(), p.life)
	if err != nil {
		return nil, nil, err
	}
	rt, err := p.transport(cred)
	if err != nil {
		return nil, nil, err
	}
	out := req.Clone(req.Context())
	out.Body = body
	if cred.token != "" {
		out.Header.Set("Authorization", "Bearer "+cred.token)
	}
	resp, err := rt.RoundTrip(out)
	if err == nil && resp.StatusCode != http.StatusUnauthorized {
		cred.worked.Store(true)
	}
	return resp, cred, err
}

// transport returns the transport for a credential: connections are never shared between certificates.
func (p *plugged) transport(cred *credential) (http.RoundTripper, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rt != nil && p.cert == cred.cert {
		return p.rt, nil
	}
	rt, idle, err := p.make(cred.cert)
	if err != nil {
		return nil, err
	}
	if p.idle != nil {
		p.idle()
	}
	p.rt, p.idle, p.cert = rt, idle, cred.cert
	return rt, nil
}

func (p *plugged) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle != nil {
		p.idle()
	}
}
