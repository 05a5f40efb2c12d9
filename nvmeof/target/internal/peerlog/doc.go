// Package peerlog implements a log that limits the number of lines per second that peers can cause, and counts the
// others.
package peerlog
