package wire

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// sample is a twin of some 1 KiB, as an API server sends it.
var sample = func() []byte {
	var compact bytes.Buffer
	if err := json.Compact(&compact, twin); err != nil {
		panic(err)
	}
	return compact.Bytes()
}()

//go:embed testdata/twin.json
var twin []byte

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(sample); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Decode(sample)
	}
}

// What the machinery's decoder costs, beside.
func BenchmarkMachinery(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var content map[string]any
		if err := utiljson.Unmarshal(sample, &content); err != nil {
			b.Fatal(err)
		}
	}
}
