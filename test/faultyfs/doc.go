// Package faultyfs is a file system for tests. It returns errors, hangs, runs out of space, is unmounted and mounted
// again, and loses what was not synced. The code under test needs no changes for that.
//
// [Run] runs a test in a process of its own, in which the file system is mounted (FUSE). The process of the test serves
// it, so that the server keeps answering when the other process hangs. It does not need root if user namespaces are
// allowed; if the file system cannot be mounted the test is skipped. go-fuse does not compile for 32-bit processors;
// for those the package has only this file.
//
// # What survives a power failure
//
// Every change is logged. What an fsync(2) that has ended covers survives a power failure: the content, size and
// attributes of a file, the entries of a directory. Everything else may survive in every combination of:
//
//   - any of the writes and size changes of a file, in their order, each write as a whole or only some of
//     its sectors
//   - the entries of a directory up to some change, whether or not the files have their content
//
// That is what POSIX allows, and more than most file systems do. [FS.Crash] picks one such state and continues with it;
// [Log.Images] yields all of them, at every point of the log.
package faultyfs
