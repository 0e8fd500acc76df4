//go:build unix

package harness

import (
	"testing"

	"isthmus.dev/isthmus/internal/controlplane"
)

// StopAPIServer makes the cluster unreachable; StartAPIServer brings it back.
func (s *Side) StopAPIServer(t testing.TB) {
	t.Helper()
	if err := s.Kill(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
}

// StartAPIServer undoes StopAPIServer.
func (s *Side) StartAPIServer(t testing.TB) {
	t.Helper()
	if err := s.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
}

// PauseAPIServer makes the cluster hang; ResumeAPIServer lets it go on.
func (s *Side) PauseAPIServer(t testing.TB) {
	t.Helper()
	if err := s.Pause(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
}

// ResumeAPIServer undoes PauseAPIServer.
func (s *Side) ResumeAPIServer(t testing.TB) {
	t.Helper()
	if err := s.Resume(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
}
