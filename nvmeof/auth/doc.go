// Package auth is DH-HMAC-CHAP, the in-band authentication of NVMe over Fabrics
// (NVMe base 2.0, 8.13.5), for both roles: bytes and a source of random bytes in,
// bytes and a verdict out.
//
// A [Host] and a [Controller] are one exchange each, on one queue. Both have the
// same four methods: Pending is the message that is due to the peer, Sent says
// that it was given to it, Receive takes the peer's, and State tells how far the
// exchange is. The messages pass in this order:
//
//	host                          controller
//	AUTH_Negotiate       ->                          which hashes and groups
//	                     <-       Challenge          C1, and g^x mod p
//	Reply                ->                          proof of the host, C2, g^y mod p
//	                     <-       Success1           proof of the controller, if asked for
//	Success2             ->                          only then
//
// or end with AUTH_Failure1 of the controller or AUTH_Failure2 of the host. A
// proof is an HMAC over the peer's challenge under a key that both sides know; with
// a Diffie-Hellman group the challenge is augmented by the shared secret, so that a
// recorded exchange gives no handle to guess the key with.
//
// # Cost
//
// Receive of a Controller, and of a Host for the Challenge, computes one or two
// exponentiations modulo a prime of up to 8192 bits, which take up to tens of
// milliseconds: not for the loop of a shard. All else is quick. [Controller.Begin] is
// what is quick of Receive, and refuses what is wrong in itself; [Controller.Compute] is
// the rest.
//
// The exponentiations are those of math/big, whose time depends on the exponent.
// Exponents are drawn afresh for each exchange, as NVMe base 2.0 has it, and used twice at
// most: one that served several exchanges would let those who choose the values measure
// it. An observer
// who learned one would know the shared secret of that exchange, which leaves the
// keys as well protected as the null group does: by HMACs alone. Responses are
// compared in constant time.
//
// # Not supported
//
// Secure channel concatenation (SC_C): NVMe over RDMA has no secure channel.
package auth
