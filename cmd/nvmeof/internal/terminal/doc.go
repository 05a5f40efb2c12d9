// Package terminal reports whether output goes to a terminal, and shows the progress of jobs there.
package terminal
