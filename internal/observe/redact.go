package observe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Redact renders an error for logs, Events and statuses. For an object whose values are secret, what an API server said
// is reduced to its reason, its code and the names of the fields that it complains about, because its message may quote
// their values; of every other error the text is kept, since it has not seen the object. Empty for nil.
func Redact(err error, secret bool) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if !secret {
		return text
	}
	found := statuses(err, nil)
	// The longest first: one may contain another.
	slices.SortStableFunc(found, func(a, b apierrors.APIStatus) int { return len(textOf(b)) - len(textOf(a)) })
	var short []string
	kept := true
	for _, s := range found {
		status := s.Status()
		summary := summarize(&status)
		short = append(short, summary)
		said := textOf(s)
		if said == "" || !strings.Contains(text, said) {
			kept = false // wrapped in a way that we can't take apart
		}
		if said != "" {
			text = strings.ReplaceAll(text, said, summary)
		}
		if m := status.Message; m != "" {
			text = strings.ReplaceAll(text, m, summary)
		}
	}
	if !kept {
		return strings.Join(short, "; ")
	}
	return text
}

// statuses collects every API status in an error's tree.
func statuses(err error, found []apierrors.APIStatus) []apierrors.APIStatus {
	if err == nil {
		return found
	}
	if s, ok := err.(apierrors.APIStatus); ok {
		found = append(found, s)
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return statuses(u.Unwrap(), found)
	case interface{ Unwrap() []error }:
		for _, e := range u.Unwrap() {
			found = statuses(e, found)
		}
	}
	return found
}

func textOf(s apierrors.APIStatus) string {
	if err, ok := s.(error); ok {
		return err.Error()
	}
	return ""
}

func summarize(s *metav1.Status) string {
	var b strings.Builder
	b.WriteString("the server answered ")
	b.WriteString(strconv.Itoa(int(s.Code)))
	if s.Reason != "" {
		fmt.Fprintf(&b, " %s", s.Reason)
	}
	var fields []string
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if c.Field != "" && !slices.Contains(fields, c.Field) {
				fields = append(fields, c.Field)
			}
		}
	}
	if len(fields) > 0 {
		fmt.Fprintf(&b, " (fields %s)", strings.Join(fields, ", "))
	}
	return b.String()
}
