package observe

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestParseLevel(t *testing.T) {
	for name, want := range map[string]Level{
		"error": LevelError, "WARN": LevelWarn, "warning": LevelWarn, "info": LevelInfo, " debug ": LevelDebug, "Trace": LevelTrace,
	} {
		if got, err := ParseLevel(name); err != nil || got != want {
			t.Errorf("ParseLevel(%q) = %v, %v; want %v", name, got, err, want)
		}
	}
	if _, err := ParseLevel("loud"); err == nil || !strings.Contains(err.Error(), "trace") {
		t.Errorf("an unknown level must be refused with what is expected, got %v", err)
	}
}

func TestLoggerLevels(t *testing.T) {
	for _, json := range []bool{false, true} {
		var out bytes.Buffer
		log := NewLogger(&out, LevelTrace, json)
		log.Log(t.Context(), LevelTrace, "deep")
		log.Debug("less deep")
		if got := out.String(); !strings.Contains(got, "TRACE") || strings.Contains(got, "DEBUG-4") || !strings.Contains(got, "DEBUG") {
			t.Errorf("json %v: levels are not named: %s", json, got)
		}
		out.Reset()
		NewLogger(&out, LevelWarn, json).Info("quiet")
		if out.Len() > 0 {
			t.Errorf("json %v: logged below its level: %s", json, out.String())
		}
	}
}

func TestLoggerSeparatesTexts(t *testing.T) {
	for asJSON, want := range map[bool]string{false: `reasons="one thing; another"`, true: `"reasons":["one thing","another"]`} {
		var out strings.Builder
		NewLogger(&out, LevelInfo, asJSON).Info("x", "reasons", []string{"one thing", "another"})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s instead of %s", out.String(), want)
		}
	}
}

// F4: the client libraries log bodies at verbosity 8 and up; none of our levels may turn that on.
func TestF4_ClientLibrariesLogNoBodies(t *testing.T) {
	var out bytes.Buffer
	RouteClientLogs(NewLogger(&out, LevelTrace, false))
	t.Cleanup(klog.ClearLogger)
	for _, log := range []klog.Logger{klog.Background(), klog.FromContext(t.Context()), klog.TODO()} {
		for v := 1; v <= 10; v++ {
			if log.V(v).Enabled() {
				t.Errorf("V(%d) is enabled", v)
			}
			log.V(v).Info("Request Body", "body", "s3cret")
		}
	}
	klog.V(8).InfoS("Response Body", "body", "s3cret")
	type object struct{ Data string }
	klog.Background().Error(errors.New("went wrong"), "Something failed", "event", &object{"s3cret"}, "objects", []object{{"s3cret"}},
		"map", map[string]string{"a": "s3cret"}, "ref", klog.KRef("ns", "name"), "count", 3)
	klog.Background().WithValues("object", object{"s3cret"}).Info("hello")
	got := out.String()
	if strings.Contains(got, "s3cret") {
		t.Errorf("a value came through:\n%s", got)
	}
	for _, want := range []string{"went wrong", "Something failed", "count=3", "name", "hello", "library=client-go"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}
