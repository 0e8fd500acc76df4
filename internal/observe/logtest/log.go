// Package logtest helps tests to read what is logged, or printed by a process, while it goes on.
package logtest

import (
	"bytes"
	"sync"
)

// Log takes in what is written to it. Its zero value is empty; its methods may be called at the same time.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
