// Package auth implements DH-HMAC-CHAP, the in-band authentication of NVMe over Fabrics (NVMe base 2.0, 8.13.5), for
// both roles. It does no I/O: its inputs are messages and a source of random bytes, its outputs messages and a result.
//
// A [Host] and a [Controller] each are one side of one authentication, on one queue. Both have the same four methods.
// Pending returns the message that must be sent to the peer, and Sent must be called when that has been done. Receive
// handles a message of the peer. State returns the state of the exchange. The messages are exchanged in this order:
//
//	host                          controller
//	AUTH_Negotiate       ->                          hashes and groups offered
//	                     <-       Challenge          C1, and g^x mod p
//	Reply                ->                          response of the host, C2, g^y mod p
//	                     <-       Success1           response of the controller, if required
//	Success2             ->                          only then
//
// Or the exchange ends with AUTH_Failure1 of the controller or AUTH_Failure2 of the host. A response is an HMAC over
// the peer's challenge under a key that both sides know. With a Diffie-Hellman group, the challenge is augmented by the
// shared secret, so that a recorded exchange cannot be used to guess the key.
//
// # Cost
//
// Receive of a Controller, and Receive of a Host for the Challenge, compute one or two exponentiations modulo a prime
// of up to 8192 bits. These take up to tens of milliseconds, which is too long for the loop of a shard; everything else
// is fast. [Controller.Begin] does the fast part of Receive, and refuses invalid messages; [Controller.Compute] does
// the rest.
//
// The exponentiations use math/big, whose time depends on the exponent. Exponents are chosen at random for each
// exchange, as NVMe base 2.0 requires, and used at most twice: if one were used in several exchanges, a peer that
// chooses the values could measure it. An observer that learned an exponent would know the shared secret of that
// exchange, which leaves the keys as well protected as the null group does: by HMACs alone. Responses are compared in
// constant time.
//
// # Not supported
//
// Secure channel concatenation (SC_C) is not supported: NVMe over RDMA has no secure channel.
package auth
