package config

import (
	"context"
	"time"
)

// lookEvery is how often a watched file is read. Reading it sees every way in which files change: written in place,
// renamed over, or behind a chain of symbolic links, as a mounted ConfigMap.
const lookEvery = 500 * time.Millisecond

// Watch calls tell with each new content of a file, compiled, or with why it can't be: once for each content. hash is
// that of the content that is known already (Config.Hash). A content that lasts for less than two looks, as that of a
// file which is being written, is passed over. What comes on again makes it read the file at once, and tell of it even
// if it is the same. Watch returns when ctx ends.
func Watch[T any](ctx context.Context, path, hash string, again <-chan T, tell func(*Config, error)) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	known, seen := hash, hash
	for {
		at := ""
		select {
		case <-ctx.Done():
			return
		case <-again:
			at = contentOf(path)
		case <-ticker.C:
			if at = contentOf(path); at == known || at != seen {
				seen = at
				continue
			}
		}
		known, seen = at, at
		tell(Load(path))
	}
}

// contentOf tells contents of a file apart.
func contentOf(path string) string {
	data, err := readFile(path)
	if err != nil {
		return err.Error()
	}
	return hashOf(data)
}
