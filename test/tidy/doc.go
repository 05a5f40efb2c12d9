// Package tidy checks the project's rules as tests: formatting, import directions, what pure packages may use, names,
// sizes, methods, goroutines, doc links, names in comments that no longer exist, and interfaces by which a package
// calls back packages above it. A rule is a function from files to findings. TestRules checks each rule on small
// sources, to show that it can fail.
package tidy
