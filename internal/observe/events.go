package observe

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/lru"
)

const (
	eventQueue   = 1000             // Events that wait for a connection; more are dropped
	eventObjects = 8192             // objects whose last Event is remembered
	eventRepeat  = 30 * time.Minute // after which the same Event is told again
	eventTries   = 10
	eventMessage = 1024 // bytes, as the API server admits
	eventFlush   = 1500 * time.Millisecond
	// Good news, beyond so many at once, is told so often a second only: each is a write to the API server, which in a first
	// sync of thousands of objects has better things to do.
	goodNewsBurst = 25
	goodNewsRate  = 1
)

// Component is who Events are from.
const Component = "isthmus"

// Events tells people about their objects, as core/v1 Events in the objects' own cluster. It never blocks its callers:
// Events wait in a queue of their own, and are dropped when that is full. The methods of a nil *Events do nothing.
type Events struct {
	client    kubernetes.Interface
	component string
	log       *slog.Logger
	now       func() time.Time
	wait      time.Duration // before a second try

	queue chan *corev1.Event
	good  flowcontrol.PassiveRateLimiter // for Events that are no warnings
	stop  context.CancelFunc
	done  chan struct{}

	mu     sync.Mutex
	closed bool
	muted  bool
	last   *lru.Cache // object UID → lastEvent
	drops  int
}

// lastEvent is what was told of an object last.
type lastEvent struct {
	kind, reason, message string
	at                    time.Time
}

// NewEvents tells Events through client, from component. With enabled false it tells none, until Enable says so.
//
// client-go's correlator joins and counts similar Events, as everywhere in Kubernetes. Its broadcaster is not used: it
// drops bursts of more than a few dozen, logs whole Events, and can't be flushed.
func NewEvents(client kubernetes.Interface, component string, enabled bool) *Events {
	return newEvents(client, component, enabled, time.Now, time.Second)
}

func newEvents(client kubernetes.Interface, component string, enabled bool, now func() time.Time, wait time.Duration) *Events {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Events{
		client: client, component: component, now: now, wait: wait, muted: !enabled,
		queue: make(chan *corev1.Event, eventQueue), good: flowcontrol.NewTokenBucketPassiveRateLimiter(goodNewsRate, goodNewsBurst), stop: cancel, done: make(chan struct{}),
		last: lru.New(eventObjects), log: slog.New(slog.DiscardHandler),
	}
	go e.run(ctx)
	return e
}

// LogTo makes e tell log of Events that were lost. It is called before the first Emit.
func (e *Events) LogTo(log *slog.Logger) {
	if e != nil {
		e.log = log
	}
}

// Enable says whether Events are told from now on.
func (e *Events) Enable(enabled bool) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.muted = !enabled
}

// Emit tells an Event of obj, of eventType corev1.EventTypeNormal or corev1.EventTypeWarning, unless it is the one that
// was told of obj last and that is less than half an hour ago. Of obj only the reference is kept. Of many Events that are
// no warnings not all are told.
func (e *Events) Emit(obj *unstructured.Unstructured, eventType, reason, message string) {
	if e == nil || obj == nil {
		return
	}
	e.EmitRef(corev1.ObjectReference{
		APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
	}, eventType, reason, message)
}

// EmitRef is Emit for an object of which only the reference is at hand.
func (e *Events) EmitRef(ref corev1.ObjectReference, eventType, reason, message string) {
	if e == nil {
		return
	}
	message = truncate(message, eventMessage)
	now := e.now()
	next := lastEvent{eventType, reason, message, now}
	key := any(ref.UID)
	if ref.UID == "" {
		key = ref
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.muted {
		return
	}
	if v, ok := e.last.Get(key); ok {
		last := v.(lastEvent)
		if last.kind == next.kind && last.reason == next.reason && last.message == next.message && now.Sub(last.at) < eventRepeat {
			return
		}
	}
	if eventType == corev1.EventTypeNormal && !e.good.TryAccept() {
		return
	}
	select {
	case e.queue <- e.make(ref, eventType, reason, message, now):
		e.last.Add(key, next) // not if it was dropped: then it is to be told next time
	default:
		if e.drops++; e.drops == 1 {
			e.log.Warn("Events are dropped: too many wait to be written")
		}
	}
}

func (e *Events) make(ref corev1.ObjectReference, eventType, reason, message string, now time.Time) *corev1.Event {
	namespace := ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where Events of cluster-scoped objects live
	}
	t := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: recordutil.GenerateEventName(ref.Name, now.UnixNano()), Namespace: namespace},
		InvolvedObject:      ref,
		Type:                eventType,
		Reason:              reason,
		Message:             message,
		Source:              corev1.EventSource{Component: e.component},
		ReportingController: e.component,
		FirstTimestamp:      t,
		LastTimestamp:       t,
		Count:               1,
	}
}

// Shutdown takes no more Events, gives those that wait a few seconds to be written, and returns.
func (e *Events) Shutdown() {
	if e == nil {
		return
	}
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.queue)
	}
	e.mu.Unlock()
	select {
	case <-e.done:
	case <-time.After(eventFlush):
	}
	e.stop()
	<-e.done
}

func (e *Events) run(ctx context.Context) {
	defer close(e.done)
	correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{})
	for event := range e.queue {
		if ctx.Err() != nil {
			return
		}
		result, err := correlator.EventCorrelate(event)
		if err != nil || result.Skip {
			continue
		}
		if e.write(ctx, result) {
			correlator.UpdateState(result.Event)
			e.mu.Lock()
			if e.drops > 0 {
				e.log.Warn("Events are written again", "dropped", e.drops)
				e.drops = 0
			}
			e.mu.Unlock()
		}
	}
}

// write writes an Event, again and again while the server can't be reached, and reports whether it was written.
func (e *Events) write(ctx context.Context, result *record.EventCorrelateResult) bool {
	wait := e.wait
	for try := 1; ; try++ {
		err := e.send(ctx, result)
		var status apierrors.APIStatus
		switch {
		case err == nil:
			return true
		case errors.As(err, &status) && !apierrors.IsTooManyRequests(err) && status.Status().Code < 500 && status.Status().Code != 401:
			// The server won't have it: its namespace is terminating, we may not, …
			e.log.Debug("An Event was refused", "reason", result.Event.Reason, "answer", status.Status().Reason)
			return false
		case try == eventTries:
			e.log.Debug("An Event could not be written", "reason", result.Event.Reason, "error", err)
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		wait = min(2*wait, 10*time.Second)
	}
}

// send writes an Event once. What the server made of it is not decoded: nobody asks for it.
func (e *Events) send(ctx context.Context, result *record.EventCorrelateResult) error {
	event, events := result.Event, e.client.CoreV1().RESTClient()
	if event.Count > 1 {
		err := events.Patch(types.StrategicMergePatchType).Namespace(event.Namespace).Resource("events").Name(event.Name).Body(result.Patch).Do(ctx).Error()
		if !recordutil.IsKeyNotFoundError(err) {
			return err
		}
	}
	event.ResourceVersion = ""
	return events.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
}

// truncate cuts text to at most n bytes, between runes, and marks the cut.
func truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const mark = "…"
	cut := n - len(mark)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}
