package store

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/wire"
)

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"

// widgets returns the source number i, of some 1 KiB of spec that compresses badly, and its twin as an API server shows
// it, both with a status.
func widgets(i int) (source, twin *unstructured.Unstructured) {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	uid := func() string {
		return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48))
	}
	port, tags := 1024+r.IntN(60000), [2]string{text(8), text(8)}
	spec := fmt.Sprintf(`{"size":%d,"color":%q,"amount":"%dMi","replicas":%d,"data":%q,"note":%q,"limits":{"cpu":"%dm","memory":"%dMi"},
		"tags":[%q,%q],"args":[%q,%q],"ports":[{"port":80,"protocol":"TCP","name":"http"},{"port":%d,"protocol":"TCP","name":%q}]}`,
		r.IntN(1000), text(6), r.IntN(1000), r.IntN(10), text(480), text(160), r.IntN(1000), r.IntN(1000), tags[0], tags[1], text(20), text(20), port, text(6))
	at := fmt.Sprintf("2026-01-02T04:%02d:%02dZ", r.IntN(60), r.IntN(60))
	status := fmt.Sprintf(`{"observedGeneration":1,"phase":"Running","address":"10.%d.%d.%d","conditions":[{"type":"Ready","status":"True",
		"reason":"Started","message":"the widget is ready","observedGeneration":1,"lastTransitionTime":%q}]}`, r.IntN(256), r.IntN(256), r.IntN(256), at)
	namespace, name, sourceUID := fmt.Sprintf("team-%d", i%10), fmt.Sprintf("widget-%05d", i), uid()
	source = parse(`{"apiVersion":"bench.example.com/v1","kind":"Widget","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d",
		"generation":1,"creationTimestamp":%q,"labels":{"app":%q,"tier":"backend"},"annotations":{"example.com/owner":"me"},
		"managedFields":[{"manager":"isthmus/local/default","subresource":"status","time":%q}]},"spec":%s,"status":%s}`,
		name, namespace, sourceUID, 20000+i, at, name, at, spec, status)
	twin = parse(`{"apiVersion":"bench.example.com/v1","kind":"Widget","metadata":{"name":%q,"namespace":"host-%s","uid":%q,"resourceVersion":"%d",
		"generation":1,"creationTimestamp":%q,"labels":{"app":%q,"tier":"backend","isthmus.dev/origin":"consumer"},
		"annotations":{"example.com/owner":"me","isthmus.dev/applied":"v1-%016x%016x","isthmus.dev/rule":"widgets","isthmus.dev/source":"%s/%s",
		"isthmus.dev/source-generation":"1","isthmus.dev/source-uid":%q,"isthmus.dev/twin":"host-%s/%s",
		"isthmus.dev/writer":"consumer/default/0b5f6a1e-3b7c-4a5d-9a55-2f5f5a1e3b7c"},"managedFields":[
		{"apiVersion":"bench.example.com/v1","fieldsType":"FieldsV1","manager":"isthmus","operation":"Apply","time":%q,"fieldsV1":{
		"f:metadata":{"f:annotations":{"f:example.com/owner":{},"f:isthmus.dev/applied":{},"f:isthmus.dev/rule":{},"f:isthmus.dev/source":{},
		"f:isthmus.dev/source-generation":{},"f:isthmus.dev/source-uid":{},"f:isthmus.dev/twin":{},"f:isthmus.dev/writer":{}},
		"f:labels":{"f:app":{},"f:isthmus.dev/origin":{},"f:tier":{}}},"f:spec":{"f:amount":{},"f:args":{},"f:color":{},"f:data":{},
		"f:limits":{"f:cpu":{},"f:memory":{}},"f:note":{},"f:ports":{"k:{\"port\":%d,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},
		"f:protocol":{}},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}}},"f:replicas":{},"f:size":{},
		"f:tags":{"v:\"%s\"":{},"v:\"%s\"":{}}}}},
		{"apiVersion":"bench.example.com/v1","fieldsType":"FieldsV1","manager":"controller","operation":"Update","subresource":"status","time":%q,
		"fieldsV1":{"f:status":{".":{},"f:address":{},"f:conditions":{},"f:observedGeneration":{},"f:phase":{}}}}]},"spec":%s,"status":%s}`,
		name, namespace, uid(), 20000+i, at, name, r.Uint64(), r.Uint64(), namespace, name, sourceUID, namespace, name, at, port, tags[0], tags[1], at, spec, status)
	return source, twin
}

func parse(format string, args ...any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(fmt.Appendf(nil, format, args...)); err != nil {
		panic(err)
	}
	return o
}

func bySource(o *unstructured.Unstructured) (Second, bool) {
	annotations := o.GetAnnotations()
	namespace, name, ok := strings.Cut(annotations["isthmus.dev/source"], "/")
	return Second{types.NamespacedName{Namespace: namespace, Name: name}, annotations["isthmus.dev/rule"], types.UID(annotations["isthmus.dev/source-uid"])}, ok
}

// What a source and its twin take of the heap, in a store each.
func BenchmarkHeap(b *testing.B) {
	const n = 10000
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	for b.Loop() {
		before := heap()
		sources, twins := New(Options{Slim: true}), New(Options{Index: bySource})
		for of, s := range []*Store{sources, twins} {
			list := make([]any, 0, n)
			for i := range n {
				source, twin := widgets(i)
				list = append(list, came([]*unstructured.Unstructured{source, twin}[of]))
			}
			if err := s.Feed("").Replace(list, "90000"); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heap()-before)/n, "bytes/pair")
		runtime.KeepAlive(sources)
		runtime.KeepAlive(twins)
	}
}

// What an event costs.
func BenchmarkEvent(b *testing.B) {
	s := New(Options{Index: bySource})
	f := s.Feed("")
	var twins []*wire.Object
	for i := range 1000 {
		_, twin := widgets(i)
		twins = append(twins, came(twin))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		twin := twins[i%len(twins)]
		i++
		twin.Head.SetResourceVersion(fmt.Sprint(90000 + i))
		if err := f.Update(twin); err != nil {
			b.Fatal(err)
		}
	}
}

// What it costs to have an object that was not asked for lately.
func BenchmarkGet(b *testing.B) {
	s := New(Options{})
	f := s.Feed("")
	var keys []types.NamespacedName
	for i := range 1000 {
		_, twin := widgets(i)
		keys = append(keys, keyOf(twin))
		if err := f.Add(came(twin)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s.Get(keys[i%len(keys)])
		i++
	}
}
