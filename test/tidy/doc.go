// Package tidy holds the house rules as tests: formatting, import directions,
// what pure packages may not touch, names, sizes, methods, goroutines. A rule is a function
// from parsed files to findings, which is itself tested on small sources, so that
// it is known to be able to fail.
package tidy
