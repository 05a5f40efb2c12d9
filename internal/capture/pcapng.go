package capture

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// The blocks of the format (section 4) and their options.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockStatistics = 5
	blockPacket     = 6

	optionComment               = 1
	optionApplication           = 4 // of a section
	optionName                  = 2 // of an interface
	optionDescription           = 3
	optionResolution            = 9
	optionFlags                 = 2 // of a packet
	optionReceived              = 4 // of statistics
	optionInterfaceDrops        = 5
	flagsIn, flagsOut           = 1, 2
	nanoseconds                 = 9
	linkTypeRaw                 = 101 // the packet begins with an IPv4 or IPv6 header
	byteOrder                   = 0x1a2b3c4d
	blockOverhead               = 12 // the type, and the length twice
	maxBlock                    = 1 << 20
	wholeSection         uint64 = math.MaxUint64
)

var le = binary.LittleEndian

// appendBlock appends a block whose body fill appends.
func appendBlock(b []byte, kind uint32, fill func([]byte) []byte) []byte {
	start := len(b)
	b = le.AppendUint32(b, kind)
	b = le.AppendUint32(b, 0)
	b = fill(b)
	size := uint32(len(b) - start + 4)
	le.PutUint32(b[start+4:], size)
	return le.AppendUint32(b, size)
}

func pad(b []byte, n int) []byte { return append(b, make([]byte, -n&3)...) }

// option appends an option. It appends nothing for an empty text.
func option(b []byte, code uint16, text string) []byte {
	if text == "" {
		return b
	}
	text = text[:min(len(text), math.MaxUint16)]
	b = le.AppendUint16(b, code)
	b = le.AppendUint16(b, uint16(len(text)))
	return pad(append(b, text...), len(text))
}

func option64(b []byte, code uint16, v uint64) []byte {
	b = le.AppendUint16(b, code)
	b = le.AppendUint16(b, 8)
	return le.AppendUint64(b, v)
}

func endOptions(b []byte) []byte { return le.AppendUint32(b, 0) }

// appendSection begins a file.
func appendSection(b []byte, application, comment string) []byte {
	return appendBlock(b, blockSection, func(b []byte) []byte {
		b = le.AppendUint32(b, byteOrder)
		b = le.AppendUint32(b, 1) // version 1.0
		b = le.AppendUint64(b, wholeSection)
		b = option(b, optionComment, comment)
		return endOptions(option(b, optionApplication, application))
	})
}

// appendInterface describes the next interface. They are numbered from 0.
func appendInterface(b []byte, name, description string, snap int, comment string) []byte {
	return appendBlock(b, blockInterface, func(b []byte) []byte {
		b = le.AppendUint32(b, linkTypeRaw)
		b = le.AppendUint32(b, uint32(snap))
		b = option(b, optionComment, comment)
		b = option(b, optionName, name)
		b = option(b, optionDescription, description)
		return endOptions(option(b, optionResolution, string(rune(nanoseconds))))
	})
}

func appendTime(b []byte, t time.Time) []byte {
	ns := uint64(t.UnixNano())
	return le.AppendUint32(le.AppendUint32(b, uint32(ns>>32)), uint32(ns))
}

func appendPacket(b []byte, on int, p *rdmatransport.CapturedPacket, comment string) []byte {
	return appendBlock(b, blockPacket, func(b []byte) []byte {
		b = appendTime(le.AppendUint32(b, uint32(on)), p.Time)
		b = le.AppendUint32(b, uint32(len(p.Data)))
		b = le.AppendUint32(b, uint32(p.Length))
		b = pad(append(b, p.Data...), len(p.Data))
		b = option(b, optionComment, comment)
		flags := uint32(flagsIn)
		if p.Out {
			flags = flagsOut
		}
		b = le.AppendUint32(b, optionFlags|4<<16)
		return endOptions(le.AppendUint32(b, flags))
	})
}

// appendStatistics writes the counts of packets received and missed on an interface so far.
func appendStatistics(b []byte, on int, now time.Time, c *rdmatransport.Captured, comment string) []byte {
	return appendBlock(b, blockStatistics, func(b []byte) []byte {
		b = appendTime(le.AppendUint32(b, uint32(on)), now)
		b = option64(b, optionReceived, c.Seen)
		b = option64(b, optionInterfaceDrops, c.Dropped)
		return endOptions(option(b, optionComment, comment))
	})
}
