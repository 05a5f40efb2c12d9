// Package process starts processes on chosen processors and reads what they and
// the machine use.
package process
