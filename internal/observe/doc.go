// Package observe is how Isthmus tells what it does: log lines, metrics, Events, health endpoints. Nothing here tells a
// value of a Secret.
package observe
