//go:build unix

// Package harness is what the end-to-end tests stand on: two real control planes, Isthmus as a process of its own that
// holds only the RBAC that it generates, and an audit of everything that it wrote.
package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/controlplane"
)

// Patience is how long tests wait for what must happen. It is generous: machines are shared.
const Patience = 45 * time.Second

var counter atomic.Int64

// Env is one test's pair of clusters, with an identity of its own.
type Env struct {
	T testing.TB
	// ID is the cluster ID and the instance of this test's Isthmus, and leads the names of its namespaces.
	ID string
	// Local and Remote are the two sides.
	Local, Remote *Side

	// remoteUser is whom Isthmus runs as on the remote side, where that is another user than on the local one.
	remoteUser string
	dir        string
	began      time.Time
	quiet      []interval
	running    []*Isthmus
	crosses    map[string]ways     // what may cross, by resource, by the configurations that were started
	holds      map[string][]string // finalizers that Isthmus may change on sources, by resource
	hold       string              // the one that it holds them with
	lax        bool
	elects     bool            // its Isthmuses elect a leader
	adopted    map[string]bool // UIDs of what isthmus adopt may take over
}

type interval struct{ from, to time.Time }

// New returns an environment on the clusters that all tests of the process share. Such a test stays in namespaces of
// its own (Env.Namespace), and neither stops a cluster nor touches kinds that others use.
func New(t testing.TB) *Env {
	t.Helper()
	var local, remote *controlplane.Cluster
	var starting sync.WaitGroup
	starting.Go(func() { local = controlplane.Shared(t, "local") })
	remote = controlplane.Shared(t, "remote")
	starting.Wait()
	if local == nil || remote == nil {
		t.FailNow()
	}
	return newEnv(t, local, remote)
}

// NewOwn returns an environment on two clusters of its own, for tests that stop or break them.
func NewOwn(t testing.TB, options controlplane.Options) *Env {
	t.Helper()
	start := func(name string) (*controlplane.Cluster, error) {
		return controlplane.Start(t.Context(), name, options)
	}
	var local, remote *controlplane.Cluster
	var localErr, remoteErr error
	var starting sync.WaitGroup
	starting.Go(func() { local, localErr = start("local") })
	remote, remoteErr = start("remote")
	starting.Wait()
	for _, c := range []*controlplane.Cluster{local, remote} {
		if c != nil {
			t.Cleanup(c.Stop)
		}
	}
	if localErr != nil || remoteErr != nil {
		t.Fatalf("start control planes: %v %v", localErr, remoteErr)
	}
	return newEnv(t, local, remote)
}

var notLabel = regexp.MustCompile(`[^a-z0-9]+`)

// testID returns a DNS label that no other test of the process has.
func testID(t testing.TB) string {
	name := strings.Trim(notLabel.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-"), "-")
	return fmt.Sprintf("t%d-%s", counter.Add(1), strings.Trim(name[:min(len(name), 24)], "-"))
}

func newEnv(t testing.TB, local, remote *controlplane.Cluster) *Env {
	e := &Env{
		T: t, ID: testID(t),
		dir: t.TempDir(), began: time.Now(), crosses: map[string]ways{}, holds: map[string][]string{}, adopted: map[string]bool{},
	}
	e.hold = boundary.Identity{Home: e.ID, Instance: e.ID}.Finalizer(remoteID)
	e.Local, e.Remote = newSide(t, local), newSide(t, remote)
	// Cleanups run last in, first out: the processes stop before their writes are audited.
	t.Cleanup(e.audit)
	t.Cleanup(func() {
		for _, p := range e.running {
			p.end()
		}
		if t.Failed() {
			for _, p := range e.running[max(0, len(e.running)-2):] {
				t.Logf("the end of the log of isthmus:\n%s", tail(p.Log(), 40))
			}
		}
	})
	return e
}

// Namespace makes a namespace of this test on both sides and returns its name.
func (e *Env) Namespace(suffix string) string {
	e.T.Helper()
	name := e.ID + "-" + suffix
	for _, side := range []*Side{e.Local, e.Remote} {
		side.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n")
	}
	return name
}

// Both applies manifests on both sides.
func (e *Env) Both(manifests string) {
	e.T.Helper()
	e.Local.Apply(manifests)
	e.Remote.Apply(manifests)
}

// Eventually waits until check returns nil, or fails the test with its last error.
func (e *Env) Eventually(check func() error) {
	e.T.Helper()
	e.Within(Patience, check)
}

// Within waits until check returns nil, or fails the test with its last error after a time.
func (e *Env) Within(limit time.Duration, check func() error) {
	e.T.Helper()
	controlplane.Eventually(e.T, limit, check)
}

// Always checks for a while that check keeps returning nil.
func (e *Env) Always(span time.Duration, check func() error) {
	e.T.Helper()
	for deadline := time.Now().Add(span); time.Now().Before(deadline); pause(50 * time.Millisecond) {
		if err := check(); err != nil {
			e.T.Fatalf("not always: %v", err)
		}
	}
}

// Quiet declares a time in which Isthmus must not write at all, on either side; the audit at the end of the test
// looks at it.
func (e *Env) Quiet(span time.Duration) {
	from := time.Now()
	pause(span)
	e.quiet = append(e.quiet, interval{from, time.Now()})
}

// pause lets time pass: the tests' polls and declared quiet times are the only places that need it.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// build compiles isthmus once in a test process.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "isthmus-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "isthmus")
	args := []string{"build", "-o", path}
	if os.Getenv("ISTHMUS_TEST_RACE") != "" {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "isthmus.dev/isthmus/cmd/isthmus")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build isthmus: %w\n%s", err, out)
	}
	return path, nil
})

// Binary returns the path of the isthmus binary that the tests run.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Main runs a package's tests and leaves nothing behind: func TestMain(m *testing.M) { harness.Main(m) }.
func Main(m *testing.M) {
	code := m.Run()
	controlplane.StopShared()
	if path, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// Run runs the isthmus binary to its end and returns what it printed, on both streams, and its exit code.
func Run(t testing.TB, args ...string) (output string, code int) {
	t.Helper()
	binary := Binary(t) // which may have to be built first
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatalf("run isthmus %s: %v", strings.Join(args, " "), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
