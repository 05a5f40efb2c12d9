package golden

import (
	"encoding/binary"
	"errors"
	"time"
)

type frame struct {
	at   time.Duration // since 1970
	data []byte
}

var (
	errFormat    = errors.New("neither a little-endian microsecond pcap nor a pcapng of Ethernet")
	errTruncated = errors.New("a frame is cut off")
)

func readFrames(b []byte) ([]frame, error) {
	if len(b) < 28 {
		return nil, errTruncated
	}
	switch binary.LittleEndian.Uint32(b) {
	case 0xa1b2c3d4:
		return readClassic(b)
	case 0x0a0d0d0a:
		return readNextGeneration(b)
	}
	return nil, errFormat
}

// readClassic parses libpcap's format: a 24-byte file header, then a 16-byte header before each frame.
func readClassic(b []byte) ([]frame, error) {
	if binary.LittleEndian.Uint32(b[20:]) != 1 {
		return nil, errFormat
	}
	var out []frame
	for rest := b[24:]; len(rest) >= 16; {
		at := time.Duration(binary.LittleEndian.Uint32(rest))*time.Second +
			time.Duration(binary.LittleEndian.Uint32(rest[4:]))*time.Microsecond
		size := int(binary.LittleEndian.Uint32(rest[8:]))
		if len(rest) < 16+size {
			return nil, errTruncated
		}
		out = append(out, frame{at, rest[16 : 16+size]})
		rest = rest[16+size:]
	}
	return out, nil
}

// readNextGeneration parses the enhanced packet blocks (type 6) of a pcapng file of one interface, with times in
// microseconds unless an option says otherwise.
func readNextGeneration(b []byte) ([]frame, error) {
	var out []frame
	for len(b) >= 12 {
		kind, size := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint32(b[4:]))
		if size < 12 || size > len(b) {
			return nil, errTruncated
		}
		if kind == 6 {
			ticks := uint64(binary.LittleEndian.Uint32(b[12:]))<<32 | uint64(binary.LittleEndian.Uint32(b[16:]))
			captured := int(binary.LittleEndian.Uint32(b[20:]))
			if 28+captured > size {
				return nil, errTruncated
			}
			out = append(out, frame{time.Duration(ticks) * time.Microsecond, b[28 : 28+captured]})
		}
		b = b[size:]
	}
	return out, nil
}
