package cluster

import (
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// changing is a Source that a test changes.
type changing struct {
	mu      sync.Mutex
	config  *rest.Config
	refused *rest.Config // what a look after a refusal finds; nil: the same
	err     error
	asked   int
}

func (c *changing) source(refused bool) (*rest.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if refused && c.refused != nil {
		c.config, c.refused = c.refused, nil
	}
	return c.config, c.err
}

func (c *changing) set(config *rest.Config, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config, c.err = config, err
}

func configFor(s *server, token string) *rest.Config {
	proxy := func(*http.Request) (*url.URL, error) { return nil, nil } // another function each time
	return &rest.Config{Host: s.URL, BearerToken: token, Proxy: proxy, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca()}}
}

func connectTo(t *testing.T, from *changing) *Cluster {
	t.Helper()
	c, err := Connect(Options{Role: "remote", Source: from.source})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestSourceIsFollowed(t *testing.T) {
	s, next := newServer(t, "old", namespaceAnswer), newServer(t, "new", namespaceAnswer)
	from := &changing{config: configFor(s, "old")}
	c := connectTo(t, from)
	reach := func() {
		t.Helper()
		if _, err := c.UID(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reach()
	from.set(configFor(s, "old"), nil)
	c.Look()
	if c.Epoch() != 0 {
		t.Error("an equal configuration was taken for another one")
	}
	from.set(nil, errors.New("gone"))
	c.Look()
	reach()
	from.set(configFor(next, "new"), nil)
	c.Look()
	reach()
	if c.Epoch() != 1 || c.Server() != next.URL {
		t.Errorf("epoch %d at %s", c.Epoch(), c.Server())
	}
}

// F6, row 401: what is found only by a look because of the refusal is used for the same request.
func TestF6_SourceIsAskedAfterARefusal(t *testing.T) {
	s := newServer(t, "old", namespaceAnswer)
	from := &changing{config: configFor(s, "old"), refused: configFor(s, "new")}
	c := connectTo(t, from)
	s.accept("new")
	if _, err := c.UID(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSourceThatSaysNothingUsable(t *testing.T) {
	if _, err := Connect(Options{Role: "paris", Source: (&changing{err: errors.New("no Secret")}).source}); err == nil || err.Error() != "paris cluster: no Secret" {
		t.Error(err)
	}
}

// Requests in flight move when another proxy or server name says that another server is meant.
func TestAnotherProxyMovesRequestsInFlight(t *testing.T) {
	watching := make(chan struct{}, 1)
	s := newServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		watching <- struct{}{}
		<-r.Context().Done()
	})
	from := &changing{config: configFor(s, "t")}
	c := connectTo(t, from)
	w, err := c.Metadata().Resource(namespaces).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	<-watching
	next := configFor(s, "t")
	next.ServerName = "example.com"
	from.set(next, nil)
	c.Look()
	for range w.ResultChan() { // ends, because the watch was ended
	}
}

// Each field of a configuration either makes a difference, or is no part of how a cluster is reached.
func TestDigestHasAllThatMatters(t *testing.T) {
	passed := map[string]string{
		"ContentConfig": "of the clients", "QPS": "of the clients", "Burst": "of the clients", "RateLimiter": "of the clients",
		"WarningHandler": "of the clients", "WarningHandlerWithContext": "of the clients", "UserAgent": "ours", "Timeout": "ours",
		"BearerTokenFile": "was read", "CertFile": "was read", "KeyFile": "was read", "CAFile": "was read",
		"AuthConfigPersister": "a function", "Transport": "a function", "WrapTransport": "a function", "Dial": "a function",
	}
	base, err := digest(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var check func(config *rest.Config, v reflect.Value)
	check = func(config *rest.Config, v reflect.Value) {
		for i := range v.NumField() {
			name, field := v.Type().Field(i).Name, v.Field(i)
			if passed[name] != "" {
				continue
			}
			if v.Type().Field(i).Anonymous {
				check(config, field)
				continue
			}
			before := reflect.New(field.Type()).Elem()
			before.Set(field)
			field.Set(something(t, name, field.Type()))
			if sum, err := digest(config); err != nil || sum == base {
				t.Errorf("%s makes no difference (%v)", name, err)
			}
			field.Set(before)
		}
	}
	config := &rest.Config{}
	check(config, reflect.ValueOf(config).Elem())

	exec := func(change func(*clientcmdapi.ExecConfig)) [32]byte {
		e := &clientcmdapi.ExecConfig{Command: "x", Config: &runtime.Unknown{Raw: []byte(`{"a":1}`), ContentType: runtime.ContentTypeJSON}}
		change(e)
		sum, err := digest(&rest.Config{ExecProvider: e})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	same := exec(func(*clientcmdapi.ExecConfig) {})
	for name, change := range map[string]func(*clientcmdapi.ExecConfig){
		"args":   func(e *clientcmdapi.ExecConfig) { e.Args = []string{"a"} },
		"env":    func(e *clientcmdapi.ExecConfig) { e.Env = []clientcmdapi.ExecEnvVar{{Name: "A", Value: "b"}} },
		"config": func(e *clientcmdapi.ExecConfig) { e.Config.(*runtime.Unknown).Raw = []byte(`{"a":2}`) },
		"info":   func(e *clientcmdapi.ExecConfig) { e.ProvideClusterInfo = true },
	} {
		if exec(change) == same {
			t.Errorf("the plugin's %s makes no difference", name)
		}
	}
	if exec(func(*clientcmdapi.ExecConfig) {}) != same {
		t.Error("equal plugins differ")
	}
}

// something returns a value that is not the zero one.
func something(t *testing.T, name string, of reflect.Type) reflect.Value {
	t.Helper()
	if name == "Proxy" {
		return reflect.ValueOf(func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy:1") })
	}
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(of, 1, 1))
	case reflect.Struct:
		v.Field(0).SetString("x")
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
	default:
		if of != reflect.TypeFor[time.Duration]() {
			t.Fatalf("%s is of a new kind, %s: does it tell configurations apart?", name, of)
		}
	}
	return v
}
