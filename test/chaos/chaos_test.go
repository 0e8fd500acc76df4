//go:build unix

// Package chaos makes random edits on both sides of a boundary, with restarts in between, and checks after every step
// that provenance (P), ownership (O) and deletion (D) hold.
package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const config = `version: v1
log_level: trace
namespaces: {%[1]s: %[1]s}
syncResources:
- apiVersion: example.io/v1
  kind: Widget
  direction: toHost
  statusSync: true
  hostOwnedFields: [spec.replicas]
  selector: {matchLabels: {cross: "yes"}}
`

// setting reads a number from the environment.
func setting(name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// TestP3_O4_D2_RandomEditsAndRestarts makes ISTHMUS_CHAOS_STEPS steps (80) from the seed ISTHMUS_CHAOS_SEED (a new one
// each run, which is logged).
func TestP3_O4_D2_RandomEditsAndRestarts(t *testing.T) {
	e := harness.NewOwn(t, controlplane.Options{})
	e.Both(harness.WidgetCRD("example.io"))
	seed := setting("ISTHMUS_CHAOS_SEED", time.Now().UnixNano())
	t.Logf("ISTHMUS_CHAOS_SEED=%d", seed)
	w := &world{
		Env: e, t: t, namespace: e.Namespace("a"), random: rand.New(rand.NewPCG(uint64(seed), 1)),
		sources: map[string]*source{}, remote: map[string]*remote{},
	}
	w.start()
	for step := range int(setting("ISTHMUS_CHAOS_STEPS", 80)) {
		w.step(step)
		if t.Failed() {
			return
		}
	}
	w.ensureUp()
	w.settle("the end")
	e.Quiet(2 * time.Second)
	restarted := time.Now()
	w.restart(true)
	w.settle("a last restart")
	e.Quiet(time.Second)
	for _, write := range e.Writes(restarted) {
		// A foreign object in the way is found by the create-only apply that it refuses (P4).
		if write.Code() != http.StatusConflict {
			t.Errorf("F2: a restart in step wrote: %s", write)
		}
	}
}

// step makes one to four random edits, some of them while Isthmus or a side is down, and waits until all is as it
// should be.
func (w *world) step(n int) {
	done := ""
	down := w.random.IntN(6) == 0
	if down && w.isthmus != nil {
		w.restart(false)
		done = "[isthmus down] "
	}
	for range 1 + w.random.IntN(4) {
		e := edits[w.random.IntN(len(edits))]
		name := fmt.Sprintf("w%d", w.random.IntN(6))
		if e.do(w, name) {
			done += e.name + " " + name + "; "
		}
	}
	if w.random.IntN(15) == 0 {
		side := []*harness.Side{w.Local, w.Remote}[w.random.IntN(2)]
		component := []controlplane.Component{controlplane.APIServer, controlplane.Etcd}[w.random.IntN(2)]
		if err := side.Kill(component); err != nil {
			w.t.Fatal(err)
		}
		if err := side.Restart(w.t.Context(), component); err != nil {
			w.t.Fatal(err)
		}
		done += fmt.Sprintf("killed %s of %s; ", component, side.Name())
	}
	w.ensureUp()
	w.settle(fmt.Sprintf("step %d: %s", n, done))
}
