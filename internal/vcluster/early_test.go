package vcluster

import (
	"errors"
	"strings"
	"testing"
)

// F5: an address that is none does not keep health from telling so.
func TestF5_FaultyListenFallsBack(t *testing.T) {
	for text, want := range map[string]string{
		"": ":8082", "listen: \"8082\"": ":8082", "listen: a:b": ":8082", "listen: 7": ":8082", "{": ":8082", "listen: 127.0.0.1:1": "127.0.0.1:1", "listen: \":9\"": ":9",
	} {
		if got := newPlugin(t.Context(), "test", text).early().Listen; got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A message about a ledger names what a plugin has.
func TestMessagesNameKeys(t *testing.T) {
	err := errors.New("start with --remote-id x, or give this Isthmus an --instance of its own")
	if got := inKeys.Replace(err.Error()); strings.Contains(got, "--") || !strings.Contains(got, "remoteID x") {
		t.Error(got)
	}
}
