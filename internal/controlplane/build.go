//go:build unix

package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// unusedBuildAge is how long a build of other sources is kept after its last use.
const unusedBuildAge = 7 * 24 * time.Hour

// Binaries is a folder of built components.
type Binaries struct {
	// Dir is the absolute path of the folder.
	Dir string
}

// Path returns where the program of a component is.
func (b Binaries) Path(c Component) string { return filepath.Join(b.Dir, string(c)) }

// Build makes sure that the named components are built, and returns where they
// are. Without names it builds what a plain cluster needs: etcd, kube-apiserver
// and kubectl. What is already there is not built again; a build from scratch
// takes minutes, and reports its progress to progress (which may be nil).
//
// Builds are kept in the user's cache directory under a hash of the module's
// sources and the Go version. Concurrent calls, also of other processes, wait
// for each other. The error says what is missing when there is no Go toolchain,
// or carries the last lines of the failed build.
func Build(ctx context.Context, progress io.Writer, parts ...Component) (Binaries, error) {
	if progress == nil {
		progress = io.Discard
	}
	if len(parts) == 0 {
		parts = []Component{Etcd, APIServer, Kubectl}
	}
	for _, part := range parts {
		if !slices.Contains(All(), part) {
			return Binaries{}, fmt.Errorf("building control plane: unknown component %q, known are %v", part, All())
		}
	}
	module, err := moduleDir()
	if err != nil {
		return Binaries{}, fmt.Errorf("building control plane: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Binaries{}, fmt.Errorf("building control plane: finding the user's cache directory: %w", err)
	}
	key, err := sourceHash(module)
	if err != nil {
		return Binaries{}, fmt.Errorf("building control plane: hashing the sources: %w", err)
	}
	all := filepath.Join(cache, "isthmus", "controlplane")
	bins := Binaries{Dir: filepath.Join(all, key)}
	if len(bins.missing(parts)) > 0 {
		if err := buildMissing(ctx, progress, module, all, bins, parts); err != nil {
			return Binaries{}, fmt.Errorf("building control plane: %w", err)
		}
	}
	now := time.Now()
	_ = os.Chtimes(bins.Dir, now, now) // last use, for removeUnused; nothing depends on it
	return bins, nil
}

// missing returns those of the parts that are not built yet.
func (b Binaries) missing(parts []Component) []Component {
	var missing []Component
	for _, part := range parts {
		if _, err := os.Stat(b.Path(part)); err != nil {
			missing = append(missing, part)
		}
	}
	return missing
}

func buildMissing(ctx context.Context, progress io.Writer, module, all string, bins Binaries, parts []Component) error {
	if err := os.MkdirAll(bins.Dir, 0o755); err != nil {
		return err
	}
	unlock, err := lockBuild(ctx, progress, filepath.Join(all, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	// Another process may have built them while this one waited.
	missing := bins.missing(parts)
	if len(missing) == 0 {
		return nil
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("%s must be compiled first, which needs the Go toolchain (%s or newer), and there is no \"go\" in PATH: %w",
			joinComponents(missing), runtime.Version(), err)
	}
	// A folder of its own in the same file system, so that a finished program
	// appears under its final name in one step.
	temp, err := os.MkdirTemp(bins.Dir, ".building-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	if err := goBuild(ctx, progress, goTool, module, temp, missing); err != nil {
		return err
	}
	for _, part := range missing {
		if err := os.Rename(filepath.Join(temp, string(part)), bins.Path(part)); err != nil {
			return fmt.Errorf("installing %s: %w", part, err)
		}
	}
	removeUnused(all, bins.Dir)
	return nil
}

// lockBuild takes the build lock, and says so while it has to wait for it.
func lockBuild(ctx context.Context, progress io.Writer, path string) (unlock func(), err error) {
	started := time.Now()
	said := time.Time{}
	for {
		unlock, err := tryLock(path)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if time.Since(said) >= progressInterval {
			said = time.Now()
			_, _ = fmt.Fprintf(progress, "control plane: another process is building it, waiting (%s)\n", elapsed(started))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another process that builds it: %w", context.Cause(ctx))
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// removeUnused removes builds of other sources that nobody used for long. It is
// a courtesy to the disk: what fails is tried again after the next build.
func removeUnused(all, current string) {
	entries, err := os.ReadDir(all)
	if err != nil {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(all, entry.Name())
		info, err := entry.Info()
		if err == nil && info.IsDir() && path != current && time.Since(info.ModTime()) > unusedBuildAge {
			_ = os.RemoveAll(path)
		}
	}
}

// sourceHash identifies a build: the files of the module, how it is built, and
// the Go version of this program, which stands for the toolchain beside it (so
// that finished builds work where no toolchain is).
func sourceHash(module string) (string, error) {
	hash := sha256.New()
	_, _ = fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildFlags())
	err := filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		isSource := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if entry.IsDir() || (!isSource && name != "go.mod" && name != "go.sum") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n", filepath.ToSlash(rel), len(content))
		_, _ = hash.Write(content)
		return nil
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// moduleDir finds the folder controlplane/ of the repository: from where this
// file was compiled, else upwards from the working directory.
func moduleDir() (string, error) {
	var starts []string
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			candidate := filepath.Join(dir, "controlplane")
			content, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && strings.Contains(string(content), "\nmodule isthmus.dev/controlplane\n") {
				return candidate, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("its sources were not found: run this inside a checkout of the Isthmus repository, which has them in the folder controlplane")
}

func joinComponents(parts []Component) string {
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = string(part)
	}
	return strings.Join(names, ", ")
}
