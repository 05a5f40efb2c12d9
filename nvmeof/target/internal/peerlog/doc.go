// Package peerlog is a log that limits the lines that peers can cause to so many in a
// second, and counts the rest.
package peerlog
