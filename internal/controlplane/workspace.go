//go:build unix

package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports are taken below the range that systems use for outgoing connections:
// from there, somebody's connection could take the port of a component that
// was killed, before it is started again.
const (
	firstPort = 20000
	portCount = 10000
)

// workspaceRoot holds the folders of all clusters of this user, and the locks
// by which processes agree about folders and ports.
func workspaceRoot() string {
	return filepath.Join(os.TempDir(), "isthmus-controlplane-"+strconv.Itoa(os.Getuid()))
}

// newWorkspace makes a folder for a cluster's data. It first removes folders of
// processes that ended without doing so. release removes the folder.
func newWorkspace(name string) (dir string, release func(), err error) {
	root := workspaceRoot()
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", nil, err
	}
	// Between its making and its locking a folder looks abandoned.
	unlockRoot, err := waitLock(filepath.Join(root, "lock"))
	if err != nil {
		return "", nil, err
	}
	defer unlockRoot()
	entries, err := os.ReadDir(root)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range entries {
		abandoned := filepath.Join(root, entry.Name())
		if !entry.IsDir() || entry.Name() == "ports" {
			continue
		}
		if unlock, err := tryLock(filepath.Join(abandoned, "lock")); err == nil {
			_ = os.RemoveAll(abandoned)
			unlock()
		}
	}
	dir, err = os.MkdirTemp(root, name+"-")
	if err != nil {
		return "", nil, err
	}
	unlock, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", nil, err
	}
	return dir, func() {
		_ = os.RemoveAll(dir)
		unlock()
	}, nil
}

// reservePort takes a free loopback port, or the wanted one if that is not 0,
// for as long as this process lives or until release is called. Nothing listens
// on it yet.
func reservePort(wanted int) (port int, release func(), err error) {
	reserve := func(port int) (func(), error) {
		unlock, err := tryLock(filepath.Join(workspaceRoot(), "ports", strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			unlock()
			return nil, err
		}
		_ = listener.Close()
		return unlock, nil
	}
	if wanted != 0 {
		release, err := reserve(wanted)
		if err != nil {
			return 0, nil, fmt.Errorf("taking port %d: %w", wanted, err)
		}
		return wanted, release, nil
	}
	var last error
	for range 200 {
		port := firstPort + rand.IntN(portCount)
		release, err := reserve(port)
		if err == nil {
			return port, release, nil
		}
		last = err
		if !errors.Is(err, errLocked) && !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return 0, nil, fmt.Errorf("finding a free port: %w", last)
}
