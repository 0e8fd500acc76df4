//go:build unix

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// errLocked says that another process, or another caller in this one, has the lock.
var errLocked = errors.New("used by another process")

// tryLock takes an exclusive lock on the file, which is created where needed,
// or returns errLocked. The kernel lets go of the lock when this process ends,
// however it ends.
func tryLock(path string) (unlock func(), err error) {
	return lock(path, syscall.LOCK_EX|syscall.LOCK_NB)
}

// waitLock does the same, and waits for a lock that is held only shortly.
func waitLock(path string) (unlock func(), err error) {
	return lock(path, syscall.LOCK_EX)
}

func lock(path string, how int) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}
