package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShow(t *testing.T) {
	events := `{"Action":"build-output","ImportPath":"x","Output":"x.go:1: undefined\n"}
{"Action":"output","Package":"isthmus.dev/isthmus/a","Test":"TestSlow","Output":"=== RUN TestSlow\n"}
{"Action":"pass","Package":"isthmus.dev/isthmus/a","Test":"TestSlow","Elapsed":1.234}
{"Action":"pass","Package":"isthmus.dev/isthmus/a","Test":"TestQuick","Elapsed":0.01}
{"Action":"output","Package":"isthmus.dev/isthmus/a","Test":"TestBad/sub","Output":"    it is wrong\n"}
{"Action":"fail","Package":"isthmus.dev/isthmus/a","Test":"TestBad/sub","Elapsed":0.1}
{"Action":"fail","Package":"isthmus.dev/isthmus/a","Test":"TestBad","Elapsed":0.1}
not an event
{"Action":"output","Package":"isthmus.dev/isthmus/a","Output":"panic: out of cheese\n"}
{"Action":"fail","Package":"isthmus.dev/isthmus/a","Elapsed":2}
`
	want := `x.go:1: undefined
ok    a TestSlow (1.23s)
    it is wrong
FAIL  a TestBad (100ms)
not an event
panic: out of cheese
FAIL  a (2s)
tests: 2 passed, 1 failed, 0 skipped
`
	var out strings.Builder
	if err := show(&out, strings.NewReader(events), newResults()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBuildTellsWhatIsWrong(t *testing.T) {
	var out strings.Builder
	if err := build(&out, []string{"./testdata/broken"}); err == nil || !strings.Contains(out.String()+err.Error(), "undefined: nothing") {
		t.Errorf("error %v, printed %q", err, out.String())
	}
	if err := build(&out, []string{"./no-such-folder"}); err == nil || !strings.Contains(err.Error(), "no-such-folder") {
		t.Errorf("error %v", err)
	}
}
