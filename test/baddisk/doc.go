// Package baddisk has the tests of whole targets on disks that fail: a host of ours, the
// network, a target with its administration, and files on a file system that returns
// errors, hangs, is full, lies or is taken away (package faultyfs). The table of what a host
// and an administrator see is in docs/administration.md.
package baddisk
