// Package keeper is a process that holds controllers: it connects, itself or through the process
// that has the address, publishes namespaces on NBD sockets, answers other processes, and waits
// until nothing is connected any more.
package keeper
