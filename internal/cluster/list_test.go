package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/wire"
)

// A server that takes too long to list all at once is asked for pages, and a page that does not come is an error.
func TestListsThatTakeTooLong(t *testing.T) {
	for _, test := range []struct {
		name  string
		all   string // how a list of all at once ends
		pages bool   // pages come
		asked []string
		want  string
	}{
		{"all at once", "comes", true, []string{"all"}, "[a b]"},
		{"no answer", "hangs", true, []string{"all", "500 ", "500 more"}, "[a b]"},
		{"cut off by the server", "times out", true, []string{"all", "500 ", "500 more"}, "[a b]"},
		{"stops within", "stops", true, []string{"all", "500 ", "500 more"}, "[a b]"},
		{"no pages either", "hangs", false, []string{"all", "500 "}, ReasonTimeout},
		{"forbidden", "is forbidden", true, []string{"all"}, "Forbidden"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex // the server answers some requests still when their time is over
			var asked []string
			ask := func(what string) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, what)
			}
			release := make(chan struct{})
			s := newServer(t, "", func(w http.ResponseWriter, r *http.Request) {
				list := func(metadata string, names ...string) {
					items := ""
					for _, name := range names {
						items += fmt.Sprintf(`,{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)
					}
					fmt.Fprintf(w, `{"apiVersion":"v1","items":[%s],"kind":"ConfigMapList","metadata":{"resourceVersion":"7"%s}}`, items[1:], metadata)
				}
				fail := func(reason string, code int) {
					w.WriteHeader(code)
					fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
				}
				q := r.URL.Query()
				if q.Get("limit") != "" {
					ask(q.Get("limit") + " " + q.Get("continue"))
					switch {
					case !test.pages:
						<-release
					case q.Get("continue") == "":
						list(`,"continue":"more"`, "a")
					default:
						list("", "b")
					}
					return
				}
				ask("all")
				switch test.all {
				case "comes":
					list("", "a", "b")
				case "hangs":
					<-release
				case "times out":
					fail("Timeout", http.StatusGatewayTimeout)
				case "stops":
					fmt.Fprint(w, `{"apiVersion":"v1","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
					w.(http.Flusher).Flush()
					<-release
				case "is forbidden":
					fail("Forbidden", http.StatusForbidden)
				}
			})
			defer close(release)
			c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), withToken("t"))))
			c.transport.timeout = 200 * time.Millisecond
			objects, resourceVersion, err := c.List(t.Context(), Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}, "x", metav1.ListOptions{})
			var names []string
			for _, o := range objects {
				names = append(names, o.GetName())
			}
			got := fmt.Sprint(names)
			if err != nil {
				got = Reason(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if got != test.want || err == nil && resourceVersion != "7" || !slices.Equal(asked, test.asked) {
				t.Errorf("%s (%v) at %q, asked for %q; expected %s, %q", got, err, resourceVersion, asked, test.want, test.asked)
			}
		})
	}
}

// Who asks for all at once follows no pages: a reflector does so when those of a list have expired.
func TestAListWithoutALimitIsWhole(t *testing.T) {
	var limits []string
	s := newServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		limits = append(limits, r.URL.Query().Get("limit"))
		fmt.Fprint(w, `{"apiVersion":"v1","items":[],"kind":"ConfigMapList","metadata":{"resourceVersion":"7","continue":"more"}}`)
	})
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), withToken("t"))))
	l := c.Lister(Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}, "x")
	l.paged.Store(true)
	for _, limit := range []int64{PageSize, 0} {
		if _, err := l.List(t.Context(), metav1.ListOptions{Limit: limit}, func(*wire.Object) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(limits, []string{"500", ""}) {
		t.Errorf("the limits asked for are %q", limits)
	}
}
