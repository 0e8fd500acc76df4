//go:build linux

package main

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReplacingAcrossReads(t *testing.T) {
	const text = "uid abc-1 and abc-2, ab, aabc-1abc-1 abc-"
	want := strings.ReplaceAll(text, "abc-1", "XYZ-9")
	for name, in := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
		r := &replacing{from: []byte("abc-1"), to: []byte("XYZ-9"), of: io.NopCloser(in)}
		if err := iotest.TestReader(r, []byte(want)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
