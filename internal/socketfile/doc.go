// Package socketfile makes unix sockets in the file system that are their owner's alone: of
// mode 0600 from the first moment on, in the place of one that a process left behind, and
// never in that of one that is served.
//
// Whether a socket is served only the attempt to connect tells, and a file can be removed
// only by its name. Between the two another process may have begun to serve. Whoever makes or
// removes a socket therefore locks the folder (flock): of many that begin at one path at the
// same time one has it, and [Socket.Close] and [RemoveDead] remove nobody else's.
//
// Everybody who may read a folder may lock it too, and some file systems have no such locks.
// After a while sockets are made without it.
package socketfile
