// Package reference holds the generated reference of the file format, for commands to print.
package reference

import _ "embed" // for the schema

// SyncSchema is the JSON Schema of the file format.
//
//go:embed sync.schema.json
var SyncSchema []byte
