package observe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestServe(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := NewMetrics("v1")
	m.ForFlow("toHost", "Widget")
	var ready atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, m.Registry(), func() ([]string, error) {
			if !ready.Load() {
				return nil, errors.New("the remote cluster has not been listed yet")
			}
			return []string{"waiting: Widget: not served"}, nil
		}, func() any { return map[string]int{"rules": 1} })
	}()
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	if code, body := get("/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "the remote cluster has not been listed yet") {
		t.Errorf("/readyz before: %d %q", code, body)
	}
	ready.Store(true)
	if code, body := get("/readyz"); code != 200 || body != "ok\nwaiting: Widget: not served\n" {
		t.Errorf("/readyz after: %d %q", code, body)
	}
	if code, body := get("/metrics"); code != 200 || !strings.Contains(body, `isthmus_operations_total{direction="toHost",kind="Widget",operation="create",status="success"} 0`) {
		t.Errorf("/metrics: %d %q", code, body)
	}
	if code, body := get("/status"); code != 200 || body != "{\"rules\":1}\n" {
		t.Errorf("/status: %d %q", code, body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := http.Get("http://" + l.Addr().String() + "/healthz"); err == nil {
		t.Error("still served after the end")
	}
}

func TestServeProfiles(t *testing.T) {
	l, err := ListenProfiles("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ListenProfiles(l.Addr().String()); err == nil || !strings.Contains(err.Error(), "serving profiles") || !strings.Contains(err.Error(), "--pprof-bind-address") {
		t.Errorf("a busy address: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ServeProfiles(ctx, l) }()
	for path, want := range map[string]string{"/debug/pprof/": "goroutine", "/debug/pprof/heap?gc=1&debug=1": "# HeapInuse ="} {
		resp, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d, expected 200 with %q in the body", path, resp.StatusCode, want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ServeProfiles: %v", err)
	}
	none, err := ListenProfiles("")
	if none != nil || err != nil {
		t.Errorf("an empty address: %v, %v", none, err)
	}
	if err := ServeProfiles(ctx, nil); err != nil {
		t.Errorf("serving nothing: %v", err)
	}
}

func TestListenSaysWhatToDo(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Listen(l.Addr().String())
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "--listen") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a busy address: %v", err)
	}
	if _, err = Listen("nonsense"); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("a malformed address: %v", err)
	}
	none, err := Listen("")
	if none != nil || err != nil {
		t.Errorf("an empty address: %v, %v", none, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Serve(ctx, nil, nil, nil, nil); err != nil {
		t.Errorf("serving nothing: %v", err)
	}
}
