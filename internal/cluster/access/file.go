package access

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
)

// maxFile is the size of the largest provider file that is read; a ConfigMap holds as much.
const maxFile = 1 << 20

// ProviderFile is a provider file that may change.
type ProviderFile struct {
	path string

	mu   sync.Mutex
	text []byte
	now  *Providers
	err  error
}

// OpenProviderFile reads a provider file. Faults of its content come as config.Errors.
func OpenProviderFile(path string) (*ProviderFile, error) {
	f := &ProviderFile{path: path}
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if f.now, err = ParseProviders(path, text); err != nil {
		return nil, err
	}
	f.text = text
	return f, nil
}

// Providers returns what the file said when it was last read and sound; nil for a nil file.
func (f *ProviderFile) Providers() *Providers {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Look reads the file again, and reports whether Providers returns something else now. An error, a fault of the file, leaves
// what was read before in use; each is returned once.
func (f *ProviderFile) Look() (changed bool, err error) {
	text, err := readFile(f.path)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		if bytes.Equal(text, f.text) {
			f.err = nil
			return false, nil
		}
		var next *Providers
		if next, err = ParseProviders(f.path, text); err == nil {
			f.text, f.now, f.err = text, next, nil
			return true, nil
		}
	}
	if f.err != nil && f.err.Error() == err.Error() {
		return false, nil
	}
	f.err = err
	return false, err
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the provider file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading the provider file %s: %w", path, err)
	}
	return text, nil
}
