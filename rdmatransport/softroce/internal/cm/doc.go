// Package cm is the connection manager of a RoCEv2 endpoint (IBTA volume 1,
// chapter 12, and annex A11): both sides of the exchange that makes two queue
// pairs a connection, and ends it.
//
// An [Engine] is a pure value. Packets to queue pair 1 and the time go in;
// packets to send, events and the next deadline come out. It reads no clock,
// draws no random number by itself, and belongs to one goroutine. Times are
// durations since an arbitrary start that the caller picks once.
//
//	Active side                       Passive side
//	Connect          REQ ->           EventRequest
//	EventReply       <- REP           Accept, or Reject (<- REJ)
//	Confirm          RTU ->           EventEstablished
//	Disconnect       DREQ ->          EventDisconnected
//	                 <- DREP
//
// Either side may disconnect. Every communication ID that Connect or
// EventRequest handed out ends with exactly one [EventClosed]; before it comes
// at most one of EventRejected, EventUnreachable and EventDisconnected, which
// the caller's own Reject or Disconnect does not cause.
//
// Loss: REQ, REP and DREQ are repeated until answered; an RTU again for each
// repeated REP; duplicates get the answer given before. Beyond the intervals
// that the peers negotiated, the first two repetitions come earlier, after a
// quarter and half of it. Data that arrives on the queue pair stands for a lost
// RTU: the caller says so with [Engine.Established].
//
// Bad input is refused with a REJ where the sender can learn something from it,
// otherwise dropped, and counted in [Counters] either way.
//
// Another engine goes on with the connections of an exported one ([Export]).
//
// Not supported: service ID resolution (SIDR), alternate paths (LAP, APR),
// services outside the RDMA CM's TCP port space, redirection.
package cm
