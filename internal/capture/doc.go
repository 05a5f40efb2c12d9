// Package capture writes the packets of RDMA devices as pcapng, the format of Wireshark (draft-ietf-opsawg-pcapng).
// Comments name the owners of the packets' queue pairs.
package capture
