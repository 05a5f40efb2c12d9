package capsule

import "math"

// A WriteVerifier tells hosts whether writes that were not flushed may be lost: it is another one since
// a namespace was last served if the machine that served it restarted, and the subsystem had not been
// ended in order, with a flush. 0: the subsystem does not know, or nothing is lost since the store has no
// volatile cache. It is what the write verifier of NFS is (RFC 1813, 3.3.7), and is in the vendor specific
// bytes of Identify Namespace data (NVM command set 1.0, 4.1.5.1) of targets of this module: 8 bytes that
// say so at 384, then its 8 bytes.
type WriteVerifier uint64

// Keeper names whose verifier it is: of two with the same keeper that differ one is of a boot that has ended.
// Those of two targets have different ones.
func (v WriteVerifier) Keeper() uint32 { return uint32(v >> 32) }

// Next is the verifier of the same keeper in another boot, from one drawn at random.
func (v WriteVerifier) Next(fresh WriteVerifier) WriteVerifier {
	return v&^math.MaxUint32 | fresh&math.MaxUint32
}

// verifierMark says that a write verifier follows: "nvmeofwv".
const verifierMark = 0x7677666f656d766e

// field moves the verifier and its mark. Without a mark there is no verifier.
func (v *WriteVerifier) field(l layout, off int) {
	var mark uint64
	if *v != 0 {
		mark = verifierMark
	}
	if u64(l, off, &mark); mark == verifierMark {
		u64(l, off+8, v)
	}
}
