// Package ccall calls C functions of a data path without telling the Go scheduler.
//
// A call through cgo counts as a system call. The first after all of a program slept wakes
// the scheduler's monitor, which then looks every 20 µs for a while, and where one takes
// longer than that, the caller's processor goes to another thread, which has to be woken,
// and must be got back. A queue that serves one command at a time sleeps before each: on a
// machine with one processor the monitor took a large part of what a command cost
// (test/bench/README.md).
//
// A function that is called this way must return soon, since nothing stops the caller
// for a garbage collection meanwhile; it must not block, call back into Go, or unwind the
// stack. It runs on a stack of its own, as goroutines' are small. The kernel delivers
// signals on the thread's signal stack; the scheduler preempts nobody whose program
// counter is not in Go code.
package ccall

// Arguments is how many a function may have: integers and pointers.
const Arguments = 4
