// Package faultyfs is a file system for tests. It fails, hangs, runs out of space, is taken
// away and comes back, and forgets what was not synced: whatever runs on it needs no seam
// for that.
//
// [Run] runs a test in a process of its own, where the file system is mounted (FUSE). The
// process of the test serves it, so that what hangs in the one does not keep the other from
// answering. It takes no root where user namespaces are allowed; where it cannot be mounted
// the test is skipped. go-fuse compiles for no processor of 32 bits, which have only this file.
//
// # What survives a power failure
//
// Every change is logged. What is sure to be there after a power failure is what an fsync(2)
// that has ended covers: of a file its content, size and attributes, of a directory its
// entries. Of everything else, in every combination:
//
//   - any of the writes and changes of size of a file, in their order, each write as a whole
//     or only a part of its sectors
//   - of the entries of a directory those up to some change, whether or not the files have
//     their content
//
// That is what POSIX allows, and more than most file systems do. [FS.Crash] picks one such
// state and goes on with it; [Log.Images] yields all of them, at every point of the log.
package faultyfs
