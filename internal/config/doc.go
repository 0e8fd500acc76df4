// Package config reads the file format: strictly, with the position of every fault, and compiled to the rules that
// the rest of Isthmus works with.
//
// The types in file.go are the format. Their tags drive the decoder, and with their comments the JSON Schema and the
// reference page in docs/reference.
package config

//go:generate go run ./gen
