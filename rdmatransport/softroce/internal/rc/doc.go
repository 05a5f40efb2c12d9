// Package rc is the reliable-connection queue pair of RoCEv2 in both roles, as
// a pure value: parsed packets, work requests and the time go in; packets,
// completions and the next deadline come out. It starts no goroutine, reads no
// clock, takes no lock and does no I/O. One goroutine at a time uses a [QP].
//
// # Roles
//
// The requester (requester.go, ack.go) turns send work requests into request
// packets and consumes acknowledgements and responses. The responder
// (responder.go, response.go) executes request packets and owes
// acknowledgements and responses. Both write packets in [QP.Transmit] only.
//
// # Loss
//
// The wire allows go-back-N, and a foreign peer may do nothing better. This
// engine keeps what arrives out of order, requests and responses alike
// (reorder.go), so that a gap costs its own packet where the peer is of our
// kind ([Peer.Own]) and costs nothing where packets merely changed places:
// towards foreign peers the sequence NAK waits for a reorder window, because a
// NAK can make a Linux host's rdma_rxe fail its queue pair.
//
// Our own kind gets selective acknowledgements in place of sequence NAKs, which
// report one gap a round trip: while requests are held behind a gap, each turn in
// which something arrived sends an ACK whose payload is a bitmap (sack.go), of at
// most 256 bits in whole words of 4 bytes. Bit i, from the lowest of the first byte
// on, stands for the PSN i+2 behind the one acknowledged, and says that its packet is
// held. The sender's scoreboard takes a packet for lost when one sent after it has
// arrived (board.go), and sends at once what is lost and nothing else, while new data
// goes on within the window. Lost responses to READs show themselves by those that
// arrive, and are asked for by exact lengths (asks.go).
//
// Retransmission timers come from measured round trips (retry.go). After a
// timeout one packet is sent as a probe: its acknowledgement shows how far the
// peer really is. An acknowledgement that may have been lost is repeated to
// foreign peers, whose own timers are slow and whose retransmissions are costly.
//
// # Flow
//
// Request data in flight is bounded by a window that adapts to loss and round
// trips; the responses a READ calls for are bounded by the shard's receive
// budget ([Budget]), and large READs are issued in pieces.
//
// # Congestion
//
// A packet that arrives marked "congestion experienced" is answered with a CNP,
// at most one in 50 us (notify.go). CNPs that arrive drive DCQCN's reaction point
// (dcqcn.go): a rate for the data that the queue pair sends in either role,
// WRITEs, SENDs and responses to READs, kept by a token bucket (bucket.go). It
// differs from the paper where hardware does: the line rate is not known, so the
// first reduction starts from a rate that was measured, and the limit goes when it
// has long limited nothing; reductions and rises wait for a round trip, which is
// longer than in hardware; no timer runs. Until the first CNP all that costs one
// branch a packet.
//
// Where the path does not mark, losses that follow each other closely count as CNPs,
// and shrink windows. Those that our own kind meets count by their share beyond a few
// percent (lossmeter.go), since not only overflows lose. Round trips that stay long
// take windows back (standing.go). Peers that ignore CNPs, as rdma_rxe does, are
// bounded by windows as before.
//
// # Acknowledgements
//
// A datagram costs more than all that is done with its packets, so those that
// carry nothing but an acknowledgement are avoided. A foreign peer is asked for
// one at the end of each SEND and of each WRITE that no other data follows. Our
// own kind is asked where a completion is waited for and every ackEvery packets, and
// answers within askedDelay, behind a request of its own if there is one; the rest it
// acknowledges in time of its own, mostly behind the next request in
// the same datagram.
//
// # Equal packets
//
// Packets of one length go out in one send with segments, as many as fit; one that
// is longer than those before it starts the next. So our own kind gets messages in
// packets that all have the same headers and length: a long WRITE as WRITEs of one
// packet (where it is marked Relaxed, since another peer's WRITE may pass between
// them), a READ response as READ Response Only, a SEND in equal parts. Towards
// others the opcodes and lengths are those of IBTA 9.7.4.
//
// # Moving
//
// A queue pair that is idle can be exported, and another one goes on with its
// connection (export.go).
//
// Not implemented: end-to-end credits (always unlimited, IBTA 9.7.7.2), path
// migration, and reliable connections with shared receive queues.
package rc
