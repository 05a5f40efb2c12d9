// Package peerlog is a log with lines that peers can cause, of which it writes so many in a
// second, and counts the rest.
package peerlog
