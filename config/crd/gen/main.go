// Command gen writes docs/reference/api.md, the reference of the kinds of controller mode, from their definitions in
// config/crd.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// page is the file that is written, below the repository's root.
const page = "docs/reference/api.md"

func main() {
	text, err := generate()
	if err == nil {
		err = os.WriteFile(filepath.Join("../..", page), text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
