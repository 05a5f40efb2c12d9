// Package cm is the connection manager of a RoCEv2 endpoint (IBTA volume 1, chapter 12, and annex A11). It implements
// both sides of the exchange that connects two queue pairs, and of the one that ends the connection.
//
// An [Engine] is a pure state machine. Its inputs are packets to queue pair 1 and the time, its outputs packets,
// events and the next deadline. It reads no clock and generates no random numbers itself, and must be used by one
// goroutine at a time. Times are durations since an arbitrary start chosen by the caller.
//
//	Active side                       Passive side
//	Connect          REQ ->           EventRequest
//	EventReply       <- REP           Accept, or Reject (<- REJ)
//	Confirm          RTU ->           EventEstablished
//	Disconnect       DREQ ->          EventDisconnected
//	                 <- DREP
//
// Either side may disconnect. Every communication ID returned by Connect or EventRequest ends with exactly one
// [EventClosed]. It is preceded by at most one of EventRejected, EventUnreachable and EventDisconnected, none of
// which follows the caller's own Reject or Disconnect.
//
// Loss: REQ, REP and DREQ are repeated until answered, and an RTU for each repeated REP. Duplicates get the same
// answer as before. In addition to the negotiated intervals, the first two repetitions come earlier, after a quarter
// and half of the interval. Data that arrives on the queue pair takes the place of a lost RTU: the caller reports it
// with [Engine.Established].
//
// Bad input is rejected with a REJ if that helps the sender, and dropped otherwise. Both are counted in [Counters].
//
// The connections of an engine can be exported and continued by another engine ([Export]).
//
// Not supported: service ID resolution (SIDR), alternate paths (LAP, APR),
// services outside the RDMA CM's TCP port space, redirection.
package cm
