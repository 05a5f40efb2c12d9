// Package baddisk tests whole targets on disks that fail: our host, the network, a target with its administration, and
// files on a file system that returns errors, hangs, is full, returns wrong data or is unmounted (package faultyfs).
// The table of what a host and an administrator see is in docs/administration.md.
package baddisk
