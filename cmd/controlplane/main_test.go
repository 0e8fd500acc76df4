//go:build unix

package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/observe/logtest"
)

func TestUpRunsUntilItIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var printed logtest.Log
	command := newCommand()
	command.SetArgs([]string{"up", "one"})
	command.SetOut(&printed)
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()

	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !strings.Contains(printed.String(), "Ctrl-C") {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-ticker.C:
		}
	}
	_, rest, _ := strings.Cut(printed.String(), "export KUBECONFIG=")
	kubeconfig, _, _ := strings.Cut(rest, "\n")
	if _, err := controlplane.LoadConfig(kubeconfig); err != nil {
		t.Errorf("the kubeconfig that it printed: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(kubeconfig); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig after the end: %v", err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"no name":           {[]string{"up"}, "requires at least 1 arg"},
		"bad name":          {[]string{"up", "No_Name"}, `cluster name "No_Name"`},
		"name twice":        {[]string{"up", "a", "a"}, "given twice"},
		"unknown part":      {[]string{"up", "a", "--with", "kubelet"}, "--with kubelet: want some of"},
		"unknown component": {[]string{"build", "kubelet"}, `unknown component "kubelet"`},
		"unknown command":   {[]string{"down"}, `unknown command "down"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			command := newCommand()
			command.SetArgs(tc.args)
			command.SetOut(&logtest.Log{})
			command.SetErr(&logtest.Log{})
			err := command.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want it to say %s", err, tc.want)
			}
		})
	}
}
