// Package kept is files of what a target has to find again after a power failure. One
// target at a time has each.
package kept
