// Package sandbox takes from the process what a target that serves does not need, for good: most
// system calls by seccomp(2), and files by landlock(7). Whoever takes the process over through
// what a peer sends has what is left.
//
// The filter of system calls denies the start of programs, debugging, mounts, namespaces, other
// users, keyrings, BPF, modules and all that is newer than the list (filter.go). An io_uring makes
// some calls past it, of those that the list has anyway: none starts a program.
//
// The files are [Places]. With them, TCP, signals to other processes and abstract unix sockets of others
// are denied too, as far as the kernel's Landlock knows how. What is open stays open. An
// io_uring does not get around Landlock, which judges a file when it is opened, by whatever way.
package sandbox
