// Package runner connects the engine of package group to a store, a target and a clock.
//
// One goroutine owns the engine. Slow operations have their own goroutines, which send their results to it: calls of
// the store, each with a timeout; fences; and the target's operations on each group, one at a time. A later action on a
// group ends the context of the previous one and waits for it.
package runner
