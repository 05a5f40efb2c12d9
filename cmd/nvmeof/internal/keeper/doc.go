// Package keeper implements a process that holds controllers. It connects, by itself or through the process that has
// the address, publishes namespaces on NBD sockets, answers other processes, and waits until nothing is connected any
// more.
package keeper
