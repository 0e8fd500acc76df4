// Package installation keeps Installations: manifests on the cluster that a ClusterProfile names, and gone without a trace.
//
// What is decided is decided by pure functions, each with a table of tests: what becomes of one object (decide), whose the
// lock is (lock), what is in the inventory (inventory), how an Installation stands (conditions). The rest does what they say:
// a worker for each Installation goes through a pass whenever something changed; a pass looks at everything, does what is
// to be done next, and says how it stands. Nothing is remembered from one pass to the next that a restart could not find
// out again.
package installation
