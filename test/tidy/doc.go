// Package tidy holds the house rules as tests: formatting, import directions,
// what pure packages may not touch, names, sizes, methods, goroutines, doc links, names in
// comments that nothing has any more, and interfaces by which a package calls back those above
// it. A rule is a function
// from files to findings, which is itself tested on small sources, so that
// it is known to be able to fail.
package tidy
