// Package kept saves state of a target in files so that it survives a power failure. Only one target at a time may
// use a file.
package kept
