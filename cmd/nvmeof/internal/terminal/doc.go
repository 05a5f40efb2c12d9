// Package terminal reports whether output goes to a terminal, and has what is shown on
// people alone.
package terminal
