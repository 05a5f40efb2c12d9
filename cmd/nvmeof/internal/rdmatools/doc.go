// Package rdmatools implements the commands below "nvmeof rdma". They measure RDMA between two machines without NVMe, so
// that a fault of the network can be distinguished from one of the storage. Each command is one side of a test; the
// other side is the same command, or the established program for the same test:
//
//	ping                   rping, of rdma-core
//	hello                  rdma_server and rdma_client, of rdma-core
//	send-bw, write-lat ... ib_send_bw, ib_write_lat ..., of perftest, with -R
//
// A server serves one client. All commands verify their data as far as this does not affect the measured time, and fail
// if the data is wrong.
//
// A test runs on one goroutine, which drives the device's only completion queue while it waits (endpoint). Thus the
// measured time includes no switches between threads.
//
// The following features of perftest are not supported: several queue pairs, both directions at once, tests by duration,
// unreliable and extended connections, and the exchange over TCP.
package rdmatools
