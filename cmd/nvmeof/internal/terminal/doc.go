// Package terminal tells whether a person reads what is written, and has what is shown to
// people alone.
package terminal
