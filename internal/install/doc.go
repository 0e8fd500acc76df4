// Package install prepares the manifests of an Installation: texts in, the objects to apply out, in order, in the namespaces
// where they go, stamped. It is pure: no client, no clock. Chapter I of the contract says what is promised.
//
// The steps, a file each: read (documents), check (what is refused, and what is left out), duplicates, customize (patches,
// images, replicas), move (namespaces and what refers to them), stamp, kinds (phases), bundle, order (of removal).
package install
