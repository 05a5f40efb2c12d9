// Package sandbox irrevocably takes from the process what a target does not need while it serves: most system calls by
// seccomp(2), and files by landlock(7). A peer that gains control of the process through the data that it sends is
// limited to what remains.
//
// The filter of system calls denies starting programs, debugging, mounts, namespaces, other users, keyrings, BPF,
// modules, and all calls newer than the list (filter.go). An io_uring can make some calls without passing the filter,
// but none of them starts a program.
//
// The accessible files are [Places]. Landlock also denies TCP, signals to other processes and abstract unix sockets of
// others, as far as the kernel's version supports it. Open files stay open. An io_uring does not bypass Landlock,
// which checks a file whenever it is opened, by whatever call.
package sandbox
