// Package ccall calls C functions of a data path without involving the Go scheduler.
//
// A call through cgo counts as a system call. The first one after the whole program has slept wakes the scheduler's
// monitor, which then checks every 20 µs for a while. If a call takes longer than that, the caller's processor (P) is
// handed to another thread, which has to be woken, and the caller has to get a processor back. A queue that serves
// one command at a time sleeps before each. On a machine with one processor, the monitor took a large part of the
// cost of a command (test/bench/README.md).
//
// A function called this way must return soon, since the caller cannot be stopped for a garbage collection meanwhile.
// It must not block, call back into Go, or unwind the stack. It runs on a separate stack, as goroutine stacks are
// small. The kernel delivers signals on the thread's signal stack, and the scheduler does not preempt a thread whose
// program counter is not in Go code.
package ccall

// Arguments is the number of arguments of a function: integers and pointers.
const Arguments = 4
