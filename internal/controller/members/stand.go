package members

import (
	"errors"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/controller/link"
)

// stand returns how a member stands, given how it stood when that was told last.
func stand(s link.State, told Member) Member {
	now := Member{Cluster: s.Client, UID: s.Probe.UID, Server: s.Probe.Server, Epoch: s.Probe.Epoch}
	reason, message := s.Barred()
	switch {
	case errors.Is(s.Access, link.ErrMissing):
		reason = v1alpha1.ReasonProfileMissing
	case reason != "":
	case outdated(s):
		reason, message = v1alpha1.ReasonConnecting, "How it is reached has changed, and it was not asked again who it is"
	case told.Reached && s.Health.Err != nil && s.Probe.Err == nil:
		// A request failed after the last answer, and the member is being asked.
	default:
		reason, message = s.Away()
		if reason == told.Reason && reason != v1alpha1.ReasonConnecting {
			message = told.Message // port numbers and the like differ from one failure to the next
		}
	}
	now.Reached, now.Reason, now.Message = reason == "", reason, message
	if now.Reached {
		now.Reason, now.Message = v1alpha1.ReasonReached, "It answers, with the credential that we have"
	}
	return now
}

// outdated: how the member is reached changed after it said who it is.
func outdated(s link.State) bool {
	return s.Client != nil && !s.Probe.At.IsZero() && s.Client.Epoch() != s.Probe.Epoch
}
