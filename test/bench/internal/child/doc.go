// Package child runs the processes of a benchmark. Each is the benchmark's own program on processors of its own. The
// parent calls them by net/rpc over their standard input and output.
package child
