// Package softroce is an RDMA provider that needs no RDMA hardware: a RoCEv2 endpoint in user space over ordinary UDP
// sockets, wire compatible with Linux rdma_rxe and with RNICs. It needs no privilege and no kernel module.
//
// A datagram passes through the internal packages in this order: udp receives it in a batch, wire decodes it and
// checks its ICRC, and rc executes it on its queue pair, or cm handles it if it belongs to the connection exchange.
// The response takes the same way back. This package joins them: a [Device] has one shard for each completion queue.
// A shard owns its sockets and queue pairs and does all its work inside Poll and Flush (see package rdmatransport for
// the contract).
//
// # Addresses
//
// A device is one IP address, because every RoCEv2 endpoint uses UDP port 4791. Two devices on one machine need two
// addresses, such as two of 127.0.0.0/8. An address belongs to one process, which can hand it over (see Moving).
//
// # Integrity
//
// Every packet carries RoCE's invariant CRC. On IPv4 it covers the packet's identification, which a UDP socket can
// neither read nor set. Linux sends 0 (or the index of a GSO segment) on the sockets used here. A received ICRC is
// accepted if it is correct for some identification, which detects all single-bit errors and all but 2^-16 of other
// errors. On IPv6 the check is exact.
//
// # Congestion
//
// Packets are sent ECN capable, ECT(0), unless Config.NoECN is set. Marks and CNPs are handled by internal/rc, with
// the parameters in [Config].Congestion. CNPs have the traffic class of their connection.
//
// # Moving
//
// A device can move to another process while its peers see a pause (see [rdmatransport.MovableDevice]). Its
// descriptors move: the lock of the address, the receive sockets with their reuse-port group, and the transmit
// sockets, whose ports peers know. So no arriving packet is lost, and none goes to the wrong process, as long as only
// one of them reads. The state of each queue pair and of connection management moves too: sequence numbers, and
// whatever is needed to answer a repeated message.
//
// Measured values other than round trips start afresh, as do windows, rates and counters. Connections in time-wait
// are forgotten. A repeated DREQ is answered all the same, and a queue pair number may be used again at once, which
// matters only for a packet still in flight, with probability 2^-24. READs and atomics that were answered are not
// answered again, since their keys are invalid. Both processes need the same version of the states, which [Open] and
// Adopt check.
//
// # Limits
//
// Reliable connections only; no multicast, no path migration, no end-to-end credits, no VLAN priorities beyond the IP
// type of service. Keys of a protection domain are 32 random bits. Completion queues cannot be resized; they grow by
// themselves.
package softroce
