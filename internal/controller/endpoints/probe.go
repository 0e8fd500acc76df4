package endpoints

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// answerWithin is how long a probe waits for an answer, if its period is no shorter.
const answerWithin = 3 * time.Second

// probes find out whether links are up, where their spec says how.
type probes struct {
	ctx     context.Context   // of all probing
	running map[string]*probe // only for the one pass at a time
}

// probe is the probing of one link.
type probe struct {
	spec v1alpha1.LinkProbe
	stop context.CancelFunc

	mu      sync.Mutex
	known   bool // something may be said
	up      bool
	why     string // it is down
	against int    // results in a row that say otherwise
}

// want makes those probes run that links ask for; changed is called when one comes to another conclusion.
func (p *probes) want(links []v1alpha1.ClusterLink, changed func()) {
	next := map[string]*probe{}
	for i := range links {
		name, spec := links[i].Name, links[i].Spec.Probe
		if spec == nil {
			continue
		}
		if old := p.running[name]; old != nil && old.spec == *spec {
			next[name] = old
			continue
		}
		ctx, stop := context.WithCancel(p.ctx)
		next[name] = &probe{spec: *spec, stop: stop}
		next[name].startFrom(meta.FindStatusCondition(links[i].Status.Conditions, v1alpha1.ConditionConnected))
		go next[name].run(ctx, changed)
	}
	for name, old := range p.running {
		if next[name] != old {
			old.stop()
		}
	}
	p.running = next
}

// tell puts what the probe of a link found into its status. What a probe said that does not run any more is taken out.
func (p *probes) tell(link *v1alpha1.ClusterLink) {
	probe := p.running[link.Name]
	if probe == nil {
		if c := meta.FindStatusCondition(link.Status.Conditions, v1alpha1.ConditionConnected); c != nil && probed(c) {
			meta.RemoveStatusCondition(&link.Status.Conditions, v1alpha1.ConditionConnected)
		}
		return
	}
	if c, known := probe.condition(); known {
		c.ObservedGeneration = link.Generation
		meta.SetStatusCondition(&link.Status.Conditions, c)
	}
}

// probed reports whether a probe set a condition.
func probed(c *metav1.Condition) bool {
	return c.Reason == v1alpha1.ReasonProbeSucceeded || c.Reason == v1alpha1.ReasonProbeFailed
}

// startFrom goes on from what another process, or a probe with another spec, found.
func (p *probe) startFrom(c *metav1.Condition) {
	if c != nil && probed(c) {
		p.known, p.up, p.why = true, c.Status == metav1.ConditionTrue, c.Message
	}
}

func (p *probe) condition() (c metav1.Condition, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.up {
		return metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProbeFailed, Message: p.why}, p.known
	}
	return metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonProbeSucceeded,
		Message: p.spec.TCP + " accepts connections"}, p.known
}

// run probes until ctx ends.
func (p *probe) run(ctx context.Context, changed func()) {
	period := time.Duration(max(p.spec.PeriodSeconds, 1)) * time.Second
	for {
		err := dial(ctx, p.spec.TCP, min(period, answerWithin))
		if ctx.Err() != nil {
			return
		}
		if p.note(err) {
			changed()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(period):
		}
	}
}

// dial opens a TCP connection, and closes it again.
func dial(ctx context.Context, address string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = connection.Close()
	}
	return err
}

// note takes in a result, and reports whether it leads to another conclusion. The first answer counts at once: only then is it
// known that the link has come up.
func (p *probe) note(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	up := err == nil
	if p.known && up == p.up {
		p.against = 0
		return false
	}
	p.against++
	if p.against < int(max(p.spec.Threshold, 1)) && (p.known || !up) {
		return false
	}
	p.known, p.up, p.against, p.why = true, up, 0, ""
	if err != nil {
		p.why = fmt.Sprintf("%d probes in a row were not answered: %s", max(p.spec.Threshold, 1), reason(err, p.spec.TCP))
	}
	return true
}

// reason says why a probe failed, without what differs from try to try.
func reason(err error, address string) string {
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		return address + " does not answer"
	}
	if op, ok := err.(*net.OpError); ok {
		return address + ": " + op.Err.Error()
	}
	return address + ": " + err.Error()
}
