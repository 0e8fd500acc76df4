//go:build linux

package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus.dev/isthmus/internal/controlplane"
)

// view serves a cluster as if it were another one, whose namespace kube-system has a UID of its own: what is asked for in
// all namespaces is answered for one. Several views of one cluster with a namespace each are as many remotes.
type view struct {
	server    *httptest.Server
	namespace string
}

// newView begins to serve a view of a cluster, which is asked by whoever asks the view. stop ends it.
func newView(c *controlplane.Cluster, namespace string) (*view, error) {
	target, err := url.Parse(c.URL())
	if err != nil {
		return nil, err
	}
	config := c.Config()
	transport, err := rest.TransportFor(&rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}})
	if err != nil {
		return nil, err
	}
	v := &view{namespace: namespace}
	real, own := []byte(c.UID()), []byte(uuid.NewUUID())
	quiet := log.New(io.Discard, "", 0) // clients go away
	v.server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, // what is watched is passed on at once
		ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			v.confine(r.Out)
		},
		ModifyResponse: func(r *http.Response) error {
			if strings.HasPrefix(r.Request.URL.Path, "/api/v1/namespaces") {
				r.Body = &replacing{from: real, to: own, of: r.Body}
			}
			return nil
		},
	})
	v.server.Config.ErrorLog = quiet
	v.server.EnableHTTP2 = true
	v.server.StartTLS()
	return v, nil
}

// confine makes a request for all namespaces one for the view's own.
func (v *view) confine(r *http.Request) {
	switch r.URL.Path {
	case "/apis/" + apiVersion + "/" + plural:
		r.URL.Path = "/apis/" + apiVersion + "/namespaces/" + v.namespace + "/" + plural
	case "/api/v1/namespaces":
		if query := r.URL.Query(); r.Method == http.MethodGet && query.Get("fieldSelector") == "" {
			query.Set("fieldSelector", "metadata.name="+v.namespace)
			r.URL.RawQuery = query.Encode()
		}
	}
	if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces") {
		r.Header.Del("Accept-Encoding") // the UID is looked for in what is answered
	}
}

// kubeconfig returns a kubeconfig, that of a service account, with an address at which the view is reached.
func (v *view) kubeconfig(path, address string) ([]byte, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.server.Certificate().Raw})
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthorityData = address, certificate
	}
	return clientcmd.Write(*config)
}

func (v *view) stop() {
	v.server.CloseClientConnections() // of watches, too
	v.server.Close()
}

// replacing replaces some bytes by as many others in what is read. What may be the beginning of them waits for more.
type replacing struct {
	from, to []byte
	of       io.ReadCloser
	held     []byte // was read, and is not looked through to its end
	ready    []byte // is to be passed on
	err      error  // comes after that
}

func (r *replacing) Read(p []byte) (int, error) {
	for len(r.ready) == 0 && r.err == nil {
		chunk := make([]byte, max(len(p), 512))
		var n int
		n, r.err = r.of.Read(chunk)
		all := bytes.ReplaceAll(append(r.held, chunk[:n]...), r.from, r.to)
		keep := 0
		if r.err == nil {
			keep = begun(all, r.from)
		}
		r.ready, r.held = all[:len(all)-keep], bytes.Clone(all[len(all)-keep:])
	}
	if len(r.ready) == 0 {
		return 0, r.err
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

func (r *replacing) Close() error { return r.of.Close() }

// begun returns how many bytes at the end of text may be the beginning of what is looked for.
func begun(text, of []byte) int {
	for n := min(len(text), len(of)-1); n > 0; n-- {
		if bytes.HasSuffix(text, of[:n]) {
			return n
		}
	}
	return 0
}
