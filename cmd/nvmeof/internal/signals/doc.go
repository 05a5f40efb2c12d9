// Package signals calls a function on each arrival of a signal.
package signals
