package capsule

import "math"

// A WriteVerifier tells hosts whether unflushed writes may be lost. It changes when the machine that served a namespace
// has restarted without an orderly shutdown, which flushes. 0 means that the subsystem does not know, or that nothing
// can be lost because the store has no volatile cache. It corresponds to the write verifier of NFS (RFC 1813, 3.3.7).
// Targets of this module put it into the vendor specific bytes of Identify Namespace data (NVM command set 1.0,
// 4.1.5.1): 8 bytes at offset 384 that identify it, followed by its 8 bytes.
type WriteVerifier uint64

// Keeper identifies the target of the verifier. If two verifiers with the same keeper differ, the boot of one of them
// has ended. Different targets have different keepers.
func (v WriteVerifier) Keeper() uint32 { return uint32(v >> 32) }

// Next returns a verifier of the same keeper for another boot, made from a random one.
func (v WriteVerifier) Next(fresh WriteVerifier) WriteVerifier {
	return v&^math.MaxUint32 | fresh&math.MaxUint32
}

// verifierMark marks a write verifier: "nvmeofwv".
const verifierMark = 0x7677666f656d766e

// field encodes or decodes the verifier and its mark. Without the mark there is no verifier.
func (v *WriteVerifier) field(l layout, off int) {
	var mark uint64
	if *v != 0 {
		mark = verifierMark
	}
	if u64(l, off, &mark); mark == verifierMark {
		u64(l, off+8, v)
	}
}
