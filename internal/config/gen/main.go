// Command gen writes the reference of the file format, docs/reference/sync.schema.json and configuration.md, from the
// types of package config: their tags and their comments.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	files, err := generate("../..")
	if err == nil {
		err = write("../..", files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// example is the file that the reference page shows.
const example = "examples/widgets.yaml"

// generate returns the files by their paths below the repository's root, which it reads the comments from.
func generate(root string) (map[string][]byte, error) {
	docs, err := readComments(filepath.Join(root, "internal/config/file.go"))
	if err != nil {
		return nil, fmt.Errorf("reading the comments: %w", err)
	}
	shown, err := os.ReadFile(filepath.Join(root, example))
	if err != nil {
		return nil, fmt.Errorf("reading the example: %w", err)
	}
	schema, err := schemaOf(docs)
	if err != nil {
		return nil, fmt.Errorf("making the schema: %w", err)
	}
	return map[string][]byte{
		"docs/reference/sync.schema.json": schema,
		"docs/reference/configuration.md": pageOf(docs, string(shown)),
	}, nil
}

func write(root string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
