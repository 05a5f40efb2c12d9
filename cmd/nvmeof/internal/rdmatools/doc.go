// Package rdmatools holds the commands below "nvmeof rdma": they measure RDMA between two
// machines, without NVMe, so that a fault of the network can be distinguished from one of the
// storage. Each is one end of a test whose other end is the same command or a program
// that is older than it:
//
//	ping                   rping, of rdma-core
//	hello                  rdma_server and rdma_client, of rdma-core
//	send-bw, write-lat ... ib_send_bw, ib_write_lat ..., of perftest, with -R
//
// A server serves one client. All check their data as far as that costs no time that is
// measured, and fail if it is wrong.
//
// A test runs on one goroutine, which drives the device's only completion queue while it
// waits (endpoint), so that what is measured is the transport and no change of threads.
//
// What perftest has beside that is not here: several queue pairs, both directions at once,
// tests by duration, unreliable and extended connections, the exchange over TCP.
package rdmatools
