// Package runner connects the engine of package group to a store, a target and a clock.
//
// One goroutine owns the engine. What takes time has goroutines of its own, which send their
// results to it: calls of the store, each with a timeout, fences, and what the target does with
// each group, one thing at a time. A later action about a group ends the context of the one
// before, and waits for it.
package runner
