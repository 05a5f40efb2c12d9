package capsule

// A WriteVerifier tells hosts whether writes that were not flushed may be lost: it is another one since
// a subsystem was last served if the machine that served it restarted, and the subsystem had not been
// ended in order, with a flush. 0: the subsystem does not know. It is what the write verifier of NFS is
// (RFC 1813, 3.3.7), and is in the vendor specific bytes of Identify Controller data (NVMe base 2.0,
// 5.17.2.1) of targets of this module: 8 bytes that say so at 3072, then its 8 bytes.
type WriteVerifier uint64

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
