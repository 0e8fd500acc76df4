// Package fleet runs an engine for each remote cluster, by what Crossings, namespaces and RemoteClusters say.
//
// What they say together is worked out by pure functions (Pair, Compile); Fleet gives the engines the outcome, and tells
// how they stand.
package fleet
