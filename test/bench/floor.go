//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// runFloor does the writes that isthmus does, with the same verbs and as many at once, and one watch of the side that it
// carries from. It decides nothing: what to write follows from an object's number and version.
func runFloor(ctx context.Context, j job, localConfig, remoteConfig *rest.Config) error {
	local, err := newWidgets(localConfig, j.Namespace)
	if err != nil {
		return err
	}
	remote, err := newWidgets(remoteConfig, j.Namespace)
	if err != nil {
		return err
	}
	f := &floorer{job: j, local: local, remote: remote}
	switch j.Task {
	case specs:
		return f.all(ctx, local, func(i int) error { return f.createTwin(ctx, i, 1) })
	case statuses:
		return f.all(ctx, remote, func(i int) error { return f.returnStatus(ctx, i, 1) })
	default:
		return f.follow(ctx)
	}
}

type floorer struct {
	job
	local, remote *widgets
}

// all writes for each object once while it watches one side, and then stays until it is told to stop.
func (f *floorer) all(ctx context.Context, watched *widgets, write func(int) error) error {
	ended := make(chan error, 1)
	go func() { ended <- watched.watch(ctx, "", func(event) {}) }()
	if err := parallel(ctx, f.Count, f.Workers, write); err != nil {
		return err
	}
	return <-ended
}

// follow carries each change of a spec or a status that a watch tells.
func (f *floorer) follow(ctx context.Context) error {
	work := make(chan func() error, 1024)
	ended := make(chan error, 2+f.Workers)
	watch := func(side *widgets, see func(event)) error {
		from, _, err := side.list(ctx)
		if err != nil {
			return err
		}
		go func() { ended <- side.watch(ctx, from, see) }()
		return nil
	}
	specs, statuses := &highest{before: f.SpecVersion}, &highest{before: f.StatusVersion}
	err := watch(f.local, func(e event) {
		i, v := index(e.Object.Metadata.Name), e.Object.Spec.Size
		switch {
		case e.Type == "DELETED":
			work <- func() error { return f.remote.delete(ctx, name(i)) }
		case e.Type == "ADDED":
			specs.raise(i, v)
			work <- func() error { return f.createTwin(ctx, i, v) }
		case specs.raise(i, v):
			work <- func() error { return f.applyTwin(ctx, i, v) }
		}
	})
	if err != nil {
		return err
	}
	err = watch(f.remote, func(e event) {
		i, v := index(e.Object.Metadata.Name), e.Object.Status.Count
		if e.Type != "DELETED" && statuses.raise(i, v) {
			work <- func() error { return f.returnStatus(ctx, i, v) }
		}
	})
	if err != nil {
		return err
	}
	for range f.Workers {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case do := <-work:
					if err := do(); err != nil {
						ended <- err
						return
					}
				}
			}
		}()
	}
	return <-ended
}

// highest is the highest version seen of each object.
type highest struct {
	before int64 // no object had a higher one
	seen   map[int]int64
}

// raise reports whether a version is higher than those before, and keeps it.
func (h *highest) raise(i int, v int64) bool {
	if v <= max(h.before, h.seen[i]) {
		return false
	}
	if h.seen == nil {
		h.seen = map[int]int64{}
	}
	h.seen[i] = v
	return true
}

// twin returns the body of an apply: the source's content, and marks as long as those of isthmus.
func (f *floorer) twin(i int, v int64, resourceVersion string) []byte {
	var body map[string]any
	if err := json.Unmarshal(f.object(i, v), &body); err != nil {
		panic(err)
	}
	meta := body["metadata"].(map[string]any)
	if resourceVersion != "" {
		meta["resourceVersion"] = resourceVersion
	}
	place := f.Namespace + "/" + name(i)
	uid := "00000000-0000-0000-0000-000000000000"
	meta["labels"].(map[string]any)["bench.dev/origin"] = "local"
	annotations := meta["annotations"].(map[string]any)
	annotations["bench.dev/writer"] = "local/" + f.Namespace + "/" + uid
	annotations["bench.dev/rule"] = "Widget-toHost"
	annotations["bench.dev/source"], annotations["bench.dev/source-uid"], annotations["bench.dev/source-generation"] = place, uid, fmt.Sprint(v)
	annotations["bench.dev/twin"] = place
	annotations["bench.dev/applied"] = "v1:" + fmt.Sprintf("%064d", v)
	return encode(body)
}

func (f *floorer) createTwin(ctx context.Context, i int, v int64) error {
	return f.remote.patch(ctx, types.ApplyPatchType, name(i), f.twin(i, v, "1"))
}

func (f *floorer) applyTwin(ctx context.Context, i int, v int64) error {
	return f.remote.patch(ctx, types.ApplyPatchType, name(i), f.twin(i, v, ""))
}

func (f *floorer) returnStatus(ctx context.Context, i int, v int64) error {
	patch := []map[string]any{
		{"op": "test", "path": "/metadata/name", "value": name(i)},
		{"op": "add", "path": "/status", "value": status(i, v)},
	}
	return f.local.patch(ctx, types.JSONPatchType, name(i), encode(patch), "status")
}
