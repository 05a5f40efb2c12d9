// Package exported keeps the module's public Go interface: a text file for each version, one
// line for each thing that a program can name. What an earlier version had and the source
// has no more, or has otherwise, is an incompatible change, and CHANGELOG.md must name it.
package exported
