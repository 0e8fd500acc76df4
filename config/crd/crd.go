// Package crd holds the definitions of the kinds in api/v1alpha1, made from their Go types.
package crd

import "embed"

//go:generate go run ./gen

// Files are the definitions, a file each.
//
//go:embed *.yaml
var Files embed.FS
