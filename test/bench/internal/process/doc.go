// Package process starts processes on chosen processors, and reads the processor time and memory of processes and of
// the machine.
package process
