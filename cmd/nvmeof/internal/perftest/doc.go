// Package perftest holds what the programs of linux-rdma/perftest (ib_send_bw,
// ib_write_lat and so on) say to each other and to their user: the messages by
// which the two ends of a test agree, and the reports, as text and as JSON.
//
// The messages are those of versions 5.70 to 6.27 with the option -R, with which both
// connections are made by the RDMA CM; version 6.28 made the destination longer. What
// is exchanged over TCP without -R is not supported.
//
// The package does no I/O and reads no clock.
package perftest
