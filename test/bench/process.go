//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running contender.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	done    chan struct{}
	log     string
	// pprof is the address of net/http/pprof; listen, of isthmus alone, that of /readyz and /status.
	pprof, listen string
}

// launch starts a process, which ends with this one; its output goes to a file.
func (b *bench) launch(ctx context.Context, name, pprof, program string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(b.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{}), log: log.Name(), pprof: pprof}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop tells the process to end, and waits until it has.
func (p *process) stop() error {
	if err := p.running(); err != nil {
		return err
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(20 * time.Second):
		p.kill()
		return errors.New("it did not end within 20 s of SIGTERM")
	}
}

// kill ends it at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// running returns an error, with the end of its output, when the process has ended.
func (p *process) running() error {
	select {
	case <-p.done:
		output, _ := os.ReadFile(p.log)
		return fmt.Errorf("it ended: %s: %s", p.cmd.ProcessState, output[max(0, len(output)-1000):])
	default:
		return nil
	}
}

// clockTick is the unit of times in /proc: USER_HZ is 100 on all architectures that Go knows.
const clockTick = 10 * time.Millisecond

// cpu returns the CPU time that the process has used so far.
func (p *process) cpu() (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field is a name in parentheses, which may hold anything.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat: %q", content)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, err
}

// idle waits until the process rests: until it uses less than a tenth of a core for half a second.
func (p *process) idle(ctx context.Context) error {
	const look = 500 * time.Millisecond
	for deadline := time.Now().Add(patience); ; {
		before, err := p.cpu()
		if err != nil {
			return errors.Join(p.running(), err)
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
		after, err := p.cpu()
		if err != nil {
			return errors.Join(p.running(), err)
		}
		if after-before < look/10 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not come to rest within %s", patience)
		}
	}
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
