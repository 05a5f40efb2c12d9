// Package kept saves state of a target to files so that it survives a power failure. One
// target at a time may use a file.
package kept
