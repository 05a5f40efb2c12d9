package capsule

import "encoding/binary"

// A layout copies the fields of one structure from Go to the wire, or in the other direction, as encode says. So a
// structure lists its offsets only once.
type layout struct {
	b      []byte
	encode bool
}

// encoder returns a layout that fills b. It first clears b, so that reserved fields are zero.
func encoder(b []byte, size int) layout {
	b = b[:size]
	clear(b)
	return layout{b: b, encode: true}
}

func decoder(b []byte, size int) (layout, error) {
	if len(b) < size {
		return layout{}, ErrShort
	}
	return layout{b: b[:size]}, nil
}

func u8[T ~uint8](l layout, off int, v *T) {
	if l.encode {
		l.b[off] = uint8(*v)
		return
	}
	*v = T(l.b[off])
}

func u16[T ~uint16](l layout, off int, v *T) {
	if l.encode {
		binary.LittleEndian.PutUint16(l.b[off:], uint16(*v))
		return
	}
	*v = T(binary.LittleEndian.Uint16(l.b[off:]))
}

func u32[T ~uint32](l layout, off int, v *T) {
	if l.encode {
		binary.LittleEndian.PutUint32(l.b[off:], uint32(*v))
		return
	}
	*v = T(binary.LittleEndian.Uint32(l.b[off:]))
}

func u64[T ~uint64](l layout, off int, v *T) {
	if l.encode {
		binary.LittleEndian.PutUint64(l.b[off:], uint64(*v))
		return
	}
	*v = T(binary.LittleEndian.Uint64(l.b[off:]))
}

func (l layout) u128(off int, v *Uint128) {
	u64(l, off, &v.Lo)
	u64(l, off+8, &v.Hi)
}

// bytes copies a field of fixed length, given as a slice of the structure's array.
func (l layout) bytes(off int, v []byte) {
	if l.encode {
		copy(l.b[off:], v)
		return
	}
	copy(v, l.b[off:])
}
