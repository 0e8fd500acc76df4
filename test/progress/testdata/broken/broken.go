// Package broken does not compile.
package broken

var _ = nothing
