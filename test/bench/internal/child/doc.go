// Package child is the processes that a benchmark consists of, each the benchmark's
// own program run again on processors of its own, and how they get their work:
// calls of net/rpc over standard input and output.
package child
