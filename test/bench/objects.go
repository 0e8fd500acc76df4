//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// The kind of all objects.
const (
	group, version, kind, plural = "example.io", "v1", "Widget", "widgets"
	apiVersion                   = group + "/" + version
)

// optIn is the annotation of objects that may cross under the policy AllowList.
const optIn = "isthmus.dev/allow-reflection"

// makeup says what the objects of a world are made of: everything about object i follows from it.
type makeup struct {
	Namespace string `json:"namespace"`
	// Size is about how many bytes an object has as JSON.
	Size int    `json:"size"`
	Seed uint64 `json:"seed"`
	// OptedIn: the objects say that they may cross.
	OptedIn bool `json:"optedIn"`
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"

// name returns the name of object i.
func name(i int) string { return fmt.Sprintf("w%06d", i) }

// index returns the number of the object that has this name; -1: it is none of ours.
func index(name string) int {
	var i int
	if n, err := fmt.Sscanf(name, "w%d", &i); n != 1 || err != nil {
		return -1
	}
	return i
}

// spec returns the spec of object i in a version of it. Its text does not compress to nothing.
func (m makeup) spec(i int, v int64) map[string]any {
	random := rand.New(rand.NewPCG(m.Seed, uint64(i)))
	text := func(n int) string {
		b := make([]byte, max(n, 0))
		for i := range b {
			b[i] = letters[random.IntN(len(letters))]
		}
		return string(b)
	}
	return map[string]any{
		"size":     v,
		"color":    "blue",
		"replicas": 1 + i%5,
		"note":     text(40),
		"amount":   "250m",
		"args":     []any{"--listen=:8080", "--token=" + text(32), "--peers=" + text(32)},
		"tags":     []any{"bench", text(8), text(8)},
		"limits":   map[string]any{"cpu": "500m", "memory": "128Mi", "slots": 1 + i%7},
		"ports": []any{
			map[string]any{"name": "http", "port": 80, "protocol": "TCP"},
			map[string]any{"name": "metrics", "port": 9090, "protocol": "TCP"},
		},
		"data": text(m.Size - 720), // the rest of the object has about as much
	}
}

// object returns object i in a version of it, as JSON.
func (m makeup) object(i int, v int64) []byte {
	annotations := map[string]any{"example.io/owner": "team-a"}
	if m.OptedIn {
		annotations[optIn] = "true"
	}
	return encode(map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"name": name(i), "namespace": m.Namespace,
			"labels":      map[string]any{"app.kubernetes.io/name": "bench", "app.kubernetes.io/part-of": "widgets"},
			"annotations": annotations,
		},
		"spec": m.spec(i, v),
	})
}

// status returns what the twins' side answers about object i, in a version of it.
func status(i int, v int64) map[string]any {
	return map[string]any{
		"observedGeneration": 1,
		"count":              v,
		"address":            fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255),
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Running", "message": "all replicas run",
			"observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
	}
}

// encode encodes what is known to be encodable.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
