//go:build unix

package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Line stands between clients and a server, at an address of its own, and breaks connections on demand.
type Line struct {
	proxy *toxiproxy.Proxy
	holds []string // toxics by which something gets lost
}

// NewLine begins to let all through to a server, whose address is HOST:PORT; Cut ends it. name is for people.
func NewLine(name, server string) (*Line, error) {
	l := &Line{proxy: toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), name, "127.0.0.1:0", server)}
	return l, l.Mend()
}

// URL is where it listens, as an API server's address.
func (l *Line) URL() string { return "https://" + l.proxy.Listen }

// Cut ends all connections and takes no new ones.
func (l *Line) Cut() { l.proxy.Stop() }

// Mend lets connections through again.
func (l *Line) Mend() error { return l.proxy.Start() }

// LoseAnswers lets requests through and swallows what is answered, until Answer.
func (l *Line) LoseAnswers() error { return l.lose("downstream") }

// Hang takes connections and what is asked, and lets nothing through either way, until Answer.
func (l *Line) Hang() error { return errors.Join(l.lose("upstream"), l.lose("downstream")) }

// Answer ends LoseAnswers, or Hang, and with it the connections on which something was lost.
func (l *Line) Answer() (err error) {
	for _, name := range l.holds {
		err = errors.Join(err, l.proxy.Toxics.RemoveToxic(context.Background(), name))
	}
	l.holds = nil
	return err
}

func (l *Line) lose(stream string) error {
	name := "lost-" + stream
	l.holds = append(l.holds, name)
	return l.add(fmt.Sprintf(`{"name": %q, "type": "timeout", "stream": %q, "attributes": {"timeout": 0}}`, name, stream))
}

// Delay makes everything that the server says arrive later, from now on; what it is told arrives at once.
func (l *Line) Delay(by time.Duration) error {
	return l.add(fmt.Sprintf(`{"name": "late", "type": "latency", "stream": "downstream", "attributes": {"latency": %d}}`, by.Milliseconds()))
}

func (l *Line) add(toxic string) error {
	_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic))
	return err
}
