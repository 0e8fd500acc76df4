package cluster

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func TestHangingServerHoldsNobody(t *testing.T) {
	release := make(chan struct{})
	s := newServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("slow") {
			for range 5 {
				_, _ = io.WriteString(w, "more ")
				w.(http.Flusher).Flush()
				time.Sleep(80 * time.Millisecond)
			}
			return
		}
		if r.URL.Query().Has("body") || isWatch(r) && r.URL.Query().Get("resourceVersion") == "1" {
			w.(http.Flusher).Flush() // headers, and then nothing
		}
		<-release
	})
	defer close(release)
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), withToken("t"))))
	c.transport.timeout = 200 * time.Millisecond

	if _, err := c.UID(t.Context()); Reason(err) != ReasonTimeout {
		t.Errorf("no header: %v", err)
	}
	if h := c.Health(); h.Reached || Reason(h.Err) != ReasonTimeout {
		t.Errorf("health: %+v", h)
	}
	_, err := c.Clientset().Discovery().RESTClient().Get().AbsPath("/x").Param("body", "1").Do(t.Context()).Raw()
	if Reason(err) != ReasonTimeout {
		t.Errorf("no body: %v", err)
	}
	if body, err := c.Clientset().Discovery().RESTClient().Get().AbsPath("/x").Param("slow", "1").Do(t.Context()).Raw(); err != nil || string(body) != "more more more more more " {
		t.Errorf("a body that keeps coming, for longer than an answer may take: %q, %v", body, err)
	}
	w, err := c.Dynamic().Resource(namespaces).Watch(t.Context(), metav1.ListOptions{})
	if err != nil { // client-go makes an empty watch of a timeout
		t.Errorf("a watch without headers: %v", err)
	} else if _, more := <-w.ResultChan(); more {
		t.Error("a watch without headers had an event")
	}
	w, err = c.Dynamic().Resource(namespaces).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatalf("a quiet watch: %v", err)
	}
	select {
	case e, ok := <-w.ResultChan():
		t.Errorf("a quiet watch was ended: %v %v", e, ok)
	case <-time.After(3 * c.transport.timeout):
	}
	w.Stop()
}

// F6, row 429: the caller's backoff decides, with the server's Retry-After in its hands.
func TestF6_ThrottlingIsAnsweredAtOnce(t *testing.T) {
	s := newServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, "slow down")
	})
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), withToken("t"))))
	_, err := c.Dynamic().Resource(configMaps).Namespace("x").Get(t.Context(), "a", metav1.GetOptions{})
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds != 7 {
		t.Errorf("%v: delay %d %v", err, seconds, ok)
	}
	if n := s.count(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestHTTP2IsUsed(t *testing.T) {
	proto := ""
	s := newServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		proto = r.Proto
		namespaceAnswer(w, r)
	})
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), withToken("t"))))
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if proto != "HTTP/2.0" {
		t.Errorf("requests travel over %s: hung connections are not noticed", proto)
	}
}

// A connection that carries nothing any more, without being closed, ends its watches within half a minute.
func TestHungConnectionIsNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	s := newServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	proxy := newPausable(t, s.Listener.Addr().String())
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig("https://"+proxy.Addr().String(), s.ca(), withToken("t"))))
	w, err := c.Metadata().Resource(namespaces).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	proxy.pause()
	timeout := time.NewTimer(pingAfter + pingWait + 10*time.Second)
	defer timeout.Stop()
	for {
		select {
		case _, ok := <-w.ResultChan():
			if !ok {
				return
			}
		case <-timeout.C:
			t.Fatal("the watch goes on")
		}
	}
}

// pausable is a TCP proxy that can stop to carry bytes while its connections stay open.
type pausable struct {
	net.Listener
	mu     sync.RWMutex
	paused bool
}

func newPausable(t *testing.T, to string) *pausable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pausable{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			t.Cleanup(func() { in.Close(); out.Close() })
			go p.carry(in, out)
			go p.carry(out, in)
		}
	}()
	return p
}

func (p *pausable) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = true
}

func (p *pausable) carry(from, to net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.RLock()
		paused := p.paused
		p.mu.RUnlock()
		if paused {
			continue // swallowed
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
