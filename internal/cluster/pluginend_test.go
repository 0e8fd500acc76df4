//go:build unix

package cluster

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A plugin that hangs is told of to who waits less long than it has time; then it is ended, with what it started.
func TestAccessPluginIsEndedWithItsChildren(t *testing.T) {
	s := newServer(t, "t", namespaceAnswer)
	dir := t.TempDir()
	user := pluginUser("")
	user.Exec.Command = filepath.Join(dir, "plugin")
	held := filepath.Join(dir, "held") // as long as the child lives
	if err := syscall.Mkfifo(held, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(user.Exec.Command, []byte("#!/bin/sh\necho waiting for a login >&2\nsleep 600 > "+held+" &\nwait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, _ := connect(t, writeKubeconfig(t, "", kubeconfig(s.URL, s.ca(), user)))
	pluginOf(c).timeout = 3 * time.Second
	told := func(ctx context.Context, want string) {
		t.Helper()
		if _, err := c.UID(ctx); Reason(err) != ReasonCredentialPlugin || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %s, want %s", err, Reason(err), want)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	told(short, "has not answered yet")
	child, err := os.Open(held) // waits for the child
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	told(t.Context(), "did not answer within 3s: it says: waiting for a login")
	if _, err := io.ReadAll(child); err != nil { // waits for the child's end
		t.Error(err)
	}
}
