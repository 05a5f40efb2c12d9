// Package rc is the reliable-connection queue pair of RoCEv2, requester and responder, as a pure state machine: its
// inputs are parsed packets, work requests and the time, its outputs packets, completions and the next deadline. It
// starts no goroutine, reads no clock, takes no lock and does no I/O. A [QP] must be used by one goroutine at a time.
//
// # Roles
//
// The requester (requester.go, ack.go) turns send work requests into request packets and handles acknowledgements and
// responses. The responder (responder.go, response.go) executes request packets and produces acknowledgements and
// responses. Both emit packets only in [QP.Transmit].
//
// # Loss
//
// The protocol allows go-back-N, and foreign peers may do no better. This engine keeps out-of-order packets, requests
// and responses alike (reorder.go). A gap then costs one packet if the peer is softroce ([Peer.Own]), and nothing if
// packets were merely reordered. Towards foreign peers the sequence NAK is delayed by a reorder window, because a NAK
// can make a Linux host's rdma_rxe fail its queue pair.
//
// A softroce peer gets selective acknowledgements instead of sequence NAKs, which report one gap per round trip.
// While requests are held after a gap, each turn in which packets arrived sends an ACK whose payload is a bitmap
// (sack.go) of at most 256 bits, in whole words of 4 bytes. Bit i, counted from the lowest bit of the first byte,
// means that the packet with the acknowledged PSN plus i+2 is held. The sender's scoreboard considers a packet lost
// when one sent after it has arrived (board.go). It retransmits exactly the lost packets at once, while new data
// continues within the window. Lost READ responses are detected by those that arrive, and are asked for by exact
// lengths (asks.go).
//
// Retransmission timers follow measured round trips (retry.go). After a timeout one packet is sent as a probe, whose
// acknowledgement shows what the peer has received. Acknowledgements to foreign peers are repeated in case they were
// lost, because those peers' own timers are slow and their retransmissions costly.
//
// # Flow
//
// Request data in flight is limited by a window that adapts to loss and round trips. READ responses are limited by
// the shard's receive budget ([Budget]), and large READs are issued in pieces.
//
// # Congestion
//
// A packet that arrives marked "congestion experienced" is answered with a CNP, at most one in 50 us (notify.go).
// Received CNPs drive DCQCN's reaction point (dcqcn.go): a rate limit for the data that the queue pair sends in
// either role (WRITEs, SENDs and READ responses), enforced by a token bucket (bucket.go). It differs from the paper
// where that assumes hardware. The line rate is not known, so the first reduction starts from a measured rate, and
// the limit is removed when it has had no effect for a while. Reductions and increases wait for a round trip, which
// is longer than in hardware. No timer runs. Until the first CNP the cost is one branch per packet.
//
// For paths that do not mark, losses in close succession count as CNPs and shrink windows. Between softroce peers
// they count by the loss rate beyond a few percent (lossmeter.go), since not every loss is an overflow. Round trips
// that stay long shrink windows (standing.go). Peers that ignore CNPs, as rdma_rxe does, are still limited by
// windows.
//
// # Acknowledgements
//
// A datagram costs more than processing its packets, so datagrams with nothing but an acknowledgement are avoided. A
// foreign peer is asked for an ACK at the end of each SEND and of each WRITE that no other data follows. A softroce
// peer is asked only when a completion is waited for, and every ackEvery packets. It answers within askedDelay, after
// a request of its own if there is one. The rest it acknowledges later, mostly after its next request in the same
// datagram.
//
// # Equal packets
//
// Packets of one length are sent together with segmentation, as many as fit; a packet longer than those before it
// starts the next send. Messages to a softroce peer are therefore sent in packets with the same headers and length: a
// long WRITE as WRITEs of one packet (if it is marked FlagRelaxed, since another peer's WRITE may be executed between
// them), a READ response as READ Response Only packets, and a SEND in equal parts. Towards foreign peers the opcodes
// and lengths are those of IBTA 9.7.4.
//
// # Moving
//
// An idle queue pair can be exported, and another one continues its connection (export.go).
//
// Not implemented: end-to-end credits (always unlimited, IBTA 9.7.7.2), path
// migration, and reliable connections with shared receive queues.
package rc
