// Package perftest implements the messages by which the two sides of a test of linux-rdma/perftest (ib_send_bw,
// ib_write_lat and so on) agree, and the programs' reports as text and as JSON.
//
// The messages are those of versions 5.70 to 6.27 with the option -R, with which the RDMA CM makes both connections.
// Version 6.28 made the destination longer. The exchange over TCP, which is used without -R, is not supported.
//
// The package does no I/O and reads no clock.
package perftest
