// Command peer is softroce's end of rdma-core's and perftest's tools: it takes
// a tool's name and options and does what that tool does at that end, so that
// the tool itself, on the kernel's rxe, can judge us from the other.
//
//	peer rping -s -a 10.9.0.1 -C 10 -v
//	peer ib_read_bw -R -s 10000 -n 200 10.9.0.2
//
// The tools are rping, rdma_server, rdma_client, ib_send_bw, ib_write_bw,
// ib_read_bw and ib_atomic_bw. A server serves one client, prints "listening"
// when it can be reached, and, like a client, fails unless all data was right.
// perftest's handshake changes between versions; this is that of 6.24, the
// version in Debian 13.
package main
