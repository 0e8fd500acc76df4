//go:build unix

package controlplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// progressInterval is how often a running build reports.
const progressInterval = 3 * time.Second

// failureLines is how much of a failed program's output an error quotes.
const failureLines = 15

// buildFlags are the flags of "go build" that decide what comes out.
func buildFlags() []string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	link := []string{"-s", "-w"}
	// Without a version the components call themselves v0.0.0, and kubectl
	// and clients that compare versions refuse to go on.
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		link = append(link,
			"-X", pkg+".gitVersion="+KubernetesVersion,
			"-X", pkg+".gitMajor="+major,
			"-X", pkg+".gitMinor="+minor,
		)
	}
	return []string{
		"-mod=readonly", "-buildvcs=false",
		"-gcflags=all=-dwarf=false", // the linker would drop it, so don't compile it
		"-ldflags", strings.Join(link, " "),
	}
}

// goEnv is the environment of "go": what the user's own settings could change is fixed.
func goEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
}

// goBuild compiles the parts into the folder out.
func goBuild(ctx context.Context, progress io.Writer, goTool, module, out string, parts []Component) error {
	report := &buildReport{started: time.Now(), progress: progress}
	_, _ = fmt.Fprintf(progress, "control plane: compiling %s, once; from scratch this takes 5 to 10 minutes on two cores\n", joinComponents(parts))

	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(goTool, args...)
		for _, part := range parts {
			cmd.Args = append(cmd.Args, "./"+string(part))
		}
		cmd.Dir = module
		cmd.Env = goEnv()
		return cmd
	}
	// What is not in the compiler's cache yet; this also downloads the modules.
	var stale strings.Builder
	list := command(append([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, buildFlags()...)...)
	list.Stdout = &stale
	if err := report.run(ctx, list); err != nil {
		return err
	}
	report.total = len(strings.Fields(stale.String()))

	// -v prints each package that is compiled.
	if err := report.run(ctx, command(append([]string{"build", "-v", "-o", out + string(os.PathSeparator)}, buildFlags()...)...)); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(progress, "control plane: built in %s\n", elapsed(report.started))
	return nil
}

// buildReport follows what the go command prints to standard error.
type buildReport struct {
	started  time.Time
	progress io.Writer
	total    int // packages to compile, 0 while not known

	mu         sync.Mutex
	compiled   int
	downloaded int
	last       []string
}

// run runs the go command to its end, or until the context ends.
func (r *buildReport) run(ctx context.Context, cmd *exec.Cmd) error {
	reader, writer := io.Pipe()
	cmd.Stderr = writer
	scanned := make(chan struct{})
	go func() {
		defer close(scanned)
		r.scan(reader)
	}()
	defer func() {
		_ = writer.Close()
		<-scanned
	}()
	process, err := startChild(cmd)
	if err != nil {
		return fmt.Errorf("running go %s: %w", cmd.Args[1], err)
	}
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-process.done:
			if process.err != nil {
				return fmt.Errorf("go %s: %w, its last lines:\n%s", cmd.Args[1], process.err, r.tail())
			}
			return nil
		case <-ctx.Done():
			process.kill()
			<-process.done
			return fmt.Errorf("stopped after %s: %w", elapsed(r.started), context.Cause(ctx))
		case <-ticker.C:
			_, _ = fmt.Fprintf(r.progress, "control plane: %s, %s\n", r.line(), elapsed(r.started))
		}
	}
}

func (r *buildReport) scan(reader io.Reader) {
	scanner := bufio.NewScanner(reader)
	for scanner.Scan() {
		line := scanner.Text()
		r.mu.Lock()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			r.downloaded++
		case strings.ContainsAny(line, " \t:"):
			r.last = append(r.last, line) // a message, not a package's path
			r.last = r.last[max(0, len(r.last)-failureLines):]
		default:
			r.compiled++
		}
		r.mu.Unlock()
	}
	// A line too long for the scanner must not block the compiler.
	_, _ = io.Copy(io.Discard, reader)
}

func (r *buildReport) line() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.total == 0 && r.compiled == 0:
		return fmt.Sprintf("downloaded %d modules", r.downloaded)
	case r.compiled >= r.total:
		return fmt.Sprintf("compiled %d packages, linking", r.compiled)
	default:
		return fmt.Sprintf("compiled %d of about %d packages", r.compiled, r.total)
	}
}

func (r *buildReport) tail() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.last, "\n")
}

func elapsed(since time.Time) string { return time.Since(since).Round(time.Second).String() }
