// Package softroce is an RDMA provider that needs no RDMA hardware: a RoCEv2
// endpoint in user space over ordinary UDP sockets, wire compatible with Linux
// rdma_rxe and with RNICs. It needs no privilege and no kernel module.
//
// A datagram walks through the packages below internal in this order: udp receives it in
// a batch, wire decodes it and checks its ICRC, rc executes it on its queue pair,
// or cm if it belongs to the connection exchange; the answer goes back the same
// way. This package joins them: a [Device] has one shard for each completion
// queue, a shard owns its sockets and queue pairs and does all its work inside
// Poll and Flush (see package rdmatransport for the contract).
//
// # Addresses
//
// A device is one IP address, because every RoCEv2 endpoint uses UDP port 4791.
// Two devices on one machine need two addresses; loopback has 127.0.0.0/8 to
// offer. One process owns an address, and can give it to the next (see below).
//
// # Integrity
//
// Every packet carries RoCE's invariant CRC. On IPv4 it covers the packet's
// identification, which a UDP socket neither sees nor sets: Linux sends 0 (or
// the index of a GSO segment) on the sockets used here, and a received ICRC is
// accepted if some identification explains it, which finds all single-bit errors
// and all but 2^-16 of others. On IPv6 the check is exact.
//
// # Congestion
//
// Packets are sent ECN capable, ECT(0), unless Config.NoECN says otherwise; marks
// and CNPs are the concern of internal/rc and [Config].Congestion. CNPs travel with the traffic class of their
// connection.
//
// # Moving
//
// A device can go on in another process while its peers see a pause (see
// [rdmatransport.MovableDevice]). The descriptors go there: the lock of the address,
// the receive sockets with their reuse-port group and the transmit sockets, whose ports
// peers know. So nothing that arrives is lost, and nothing is split between the two
// processes, as long as only one of them reads. With them go sequence numbers and what
// else answers a repeated message, of each queue pair and of connection management.
//
// Measured values other than round trips begin anew, as do windows, rates and counters.
// Connections in time-wait are forgotten: a repeated DREQ is answered all the same, and
// the number of a queue pair may be used again at once, which matters only to a packet
// that is still under way then, one time in 2^24. READs and atomics that were answered are
// not answered again, since the keys that they name are dead. Both processes need the same
// version of the states, which [Open] and Adopt check.
//
// # Limits
//
// Reliable connections only; no multicast, no path
// migration, no end-to-end credits, no VLAN priorities beyond the IP type of
// service. One protection domain's keys are 32 random bits. Completion queues
// are not resizable; they grow by themselves.
package softroce
