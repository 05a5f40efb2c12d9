// Package capture writes the packets of RDMA devices as pcapng, the format of Wireshark
// (draft-ietf-opsawg-pcapng), with the names of what their queue pairs belong to as comments.
package capture
