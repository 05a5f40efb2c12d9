// Package socketfile makes unix sockets in the file system that only their owner can use. They have mode 0600 from the
// first moment on. A socket replaces one that a process left behind, but never one that is being served.
//
// Only an attempt to connect tells whether a socket is served, and a file can be removed only by its name. Between the
// two, another process may have begun to serve. A process that makes or removes a socket therefore locks the folder
// (flock): of several that begin at one path concurrently only one succeeds, and [Socket.Close] and [RemoveDead] never
// remove another process's socket.
//
// Every user who may read a folder may also lock it, and some file systems do not support such locks. After a time
// sockets are made without the lock.
package socketfile
