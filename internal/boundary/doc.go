// Package boundary decides what crosses between two clusters, and how.
//
// It is pure: no client, no logger, no clock. Everything that a decision depends on is in its Input, so that a run,
// a plan and an explanation of the same input can't differ. The chapters of docs/contract.md are its files.
package boundary
