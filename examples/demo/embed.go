// Package demo holds the manifests and the configuration of "make demo".
package demo

import "embed"

// Files are the YAML files of this folder.
//
//go:embed *.yaml
var Files embed.FS
