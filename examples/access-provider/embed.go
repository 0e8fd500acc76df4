// Package accessprovider holds the example of an access provider, which "make demo" runs as it is.
package accessprovider

import "embed"

// Files are the program, the file that says how it is run, and a ClusterProfile that names it.
//
//go:embed token-files.sh *.yaml
var Files embed.FS
