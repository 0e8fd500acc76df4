//go:build unix

package controlplane

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// AuditEvent is one entry of the API server's audit log.
type AuditEvent struct {
	AuditID string `json:"auditID"`
	// Stage is ResponseComplete; a watch also has an entry ResponseStarted, and
	// its ResponseComplete comes when it ends.
	Stage      string    `json:"stage"`
	Level      string    `json:"level"`
	RequestURI string    `json:"requestURI"`
	Verb       string    `json:"verb"` // an apply is a patch
	User       AuditUser `json:"user"`
	// ImpersonatedUser is set where User acted as somebody else.
	ImpersonatedUser *AuditUser      `json:"impersonatedUser"`
	UserAgent        string          `json:"userAgent"`
	SourceIPs        []string        `json:"sourceIPs"`
	ObjectRef        *AuditObjectRef `json:"objectRef"`
	ResponseStatus   *AuditStatus    `json:"responseStatus"`
	// RequestObject and ResponseObject are the bodies of writes. That of a patch
	// is the patch. With [Options].NoAuditBodies there are none.
	RequestObject  json.RawMessage `json:"requestObject"`
	ResponseObject json.RawMessage `json:"responseObject"`
	// RequestReceived is when the request came in, Time when this stage was
	// reached, both in microseconds.
	RequestReceived time.Time         `json:"requestReceivedTimestamp"`
	Time            time.Time         `json:"stageTimestamp"`
	Annotations     map[string]string `json:"annotations"`
}

// AuditUser is who made a request.
type AuditUser struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

// AuditObjectRef is what a request was for; an empty Name stands for a list, a
// watch or a collection.
type AuditObjectRef struct {
	Resource        string `json:"resource"`
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	UID             string `json:"uid"`
	APIGroup        string `json:"apiGroup"`
	APIVersion      string `json:"apiVersion"`
	ResourceVersion string `json:"resourceVersion"`
	Subresource     string `json:"subresource"`
}

// AuditStatus is how a request was answered.
type AuditStatus struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// IsWrite tells whether the request asked to change something.
func (e *AuditEvent) IsWrite() bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// Code returns the HTTP status of the answer, 0 where the entry has none.
func (e *AuditEvent) Code() int {
	if e.ResponseStatus == nil {
		return 0
	}
	return e.ResponseStatus.Code
}

// auditPolicy has of all requests who asked for what, and the bodies of writes
// if they are wanted. The stage RequestReceived would double each entry.
func auditPolicy(bodies bool) []byte {
	writes := "Metadata"
	if bodies {
		writes = "RequestResponse"
	}
	return fmt.Appendf(nil, `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*"]
- level: Metadata
  users: ["system:apiserver"]
- level: %s
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
`, writes)
}

// Audit returns all entries of the API server's audit log, oldest first, also
// those from before it was restarted. It is empty with [Options].NoAudit.
func (c *Cluster) Audit() ([]AuditEvent, error) { return c.AuditSince(time.Time{}) }

// AuditSince returns the entries of requests that came in at that time or later.
// What an earlier call has passed, it does not read again where it need not.
func (c *Cluster) AuditSince(since time.Time) ([]AuditEvent, error) {
	events, err := c.auditSince(since)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log of cluster %s: %w", c.name, err)
	}
	return events, nil
}

func (c *Cluster) auditSince(since time.Time) ([]AuditEvent, error) {
	// Clocks of clients are finer than the log's.
	since = since.Truncate(time.Microsecond)
	file, err := os.Open(c.AuditFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	passed := auditMark{at: time.Now()} // after the size, see auditMark
	start := c.audited.before(since)
	if _, err := file.Seek(start, io.SeekStart); err != nil {
		return nil, err
	}
	events, whole, err := parseAudit(file, since, info.Size()-start)
	if err != nil {
		return nil, err
	}
	passed.offset = start + whole
	c.audited.add(passed)
	return events, nil
}

// auditMark says how far the audit log had come at a time. An entry is written
// after its request came in, so those of requests from that time on are behind
// the offset.
type auditMark struct {
	at     time.Time
	offset int64 // where a line begins
}

// auditMarks are the marks of one log.
type auditMarks struct {
	mu    sync.Mutex
	marks []auditMark
}

// before returns the offset behind which all entries of requests are that came
// in at a time or later.
func (m *auditMarks) before(since time.Time) (offset int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mark := range m.marks {
		if !mark.at.After(since) {
			offset = max(offset, mark.offset)
		}
	}
	return offset
}

func (m *auditMarks) add(mark auditMark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks = append(m.marks, mark)
}

// OpenWatches returns how many watches a user has open, by resource.
func (c *Cluster) OpenWatches(user string) (map[string]int, error) {
	events, err := c.Audit()
	if err != nil {
		return nil, err
	}
	began := map[string]string{} // the resource, by audit ID
	for _, e := range events {
		switch {
		case e.Verb != "watch" || e.User.Username != user || e.ObjectRef == nil:
		case e.Stage == "ResponseStarted":
			began[e.AuditID] = e.ObjectRef.Resource
		default: // it has ended
			delete(began, e.AuditID)
		}
	}
	open := map[string]int{}
	for _, resource := range began {
		open[resource]++
	}
	return open, nil
}

// AuditFile returns the path of the audit log: JSON, an entry a line.
func (c *Cluster) AuditFile() string { return c.path("audit.log") }

// parseAudit returns the entries of requests that came in at a time or later,
// and the length of all whole lines within the first size bytes.
func parseAudit(reader io.Reader, since time.Time, size int64) (events []AuditEvent, whole int64, err error) {
	buffered := bufio.NewReaderSize(reader, 1<<20)
	var read int64
	for {
		line, err := buffered.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, whole, nil // a line without an end is still being written
		}
		if err != nil {
			return nil, 0, err
		}
		read += int64(len(line))
		if read <= size {
			whole = read
		}
		var event AuditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, 0, fmt.Errorf("entry %.200q: %w", line, err)
		}
		if !event.RequestReceived.Before(since) {
			events = append(events, event)
		}
	}
}

// trimAudit removes an entry that a killed API server did not write to its end;
// the next one would be appended to it.
func trimAudit(path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	end := bytes.LastIndexByte(content, '\n') + 1
	if end == len(content) {
		return nil
	}
	return os.Truncate(path, int64(end))
}
