package wire

import (
	"encoding/binary"
	"errors"
)

// Sizes in bytes.
const (
	RequestSize = 28 // of a request's header
	// MaxReplyHead is the most that stands before the data of a reply.
	MaxReplyHead = structuredSize + 12

	simpleSize     = 16
	structuredSize = 20
)

// Cookie is by what a client knows its request again.
type Cookie uint64

// A Request is the header of a request ["Request message"].
type Request struct {
	Flags   CommandFlags
	Command Command
	Cookie  Cookie
	Offset  uint64 // bytes
	Length  uint32 // bytes
}

// ErrMagic says that a client sent something else where a message should begin.
// Nothing after it can be understood.
var ErrMagic = errors.New("wrong magic number")

// DecodeRequest reads a header from the first RequestSize bytes of b.
func DecodeRequest(b []byte) (r Request, err error) {
	_ = b[RequestSize-1]
	if binary.BigEndian.Uint32(b) != magicRequest {
		return r, ErrMagic
	}
	return Request{
		Flags:   CommandFlags(binary.BigEndian.Uint16(b[4:])),
		Command: Command(binary.BigEndian.Uint16(b[6:])),
		Cookie:  Cookie(binary.BigEndian.Uint64(b[8:])),
		Offset:  binary.BigEndian.Uint64(b[16:]),
		Length:  binary.BigEndian.Uint32(b[24:]),
	}, nil
}

// Payload is how many bytes of data follow the header.
func (r *Request) Payload() uint32 {
	if r.Command == CmdWrite {
		return r.Length
	}
	return 0
}

// AppendRequest is the other direction, for tests and clients.
func AppendRequest(b []byte, r Request) []byte {
	b = binary.BigEndian.AppendUint32(b, magicRequest)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Flags))
	b = binary.BigEndian.AppendUint16(b, uint16(r.Command))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Cookie))
	b = binary.BigEndian.AppendUint64(b, r.Offset)
	return binary.BigEndian.AppendUint32(b, r.Length)
}

// AppendReply appends what stands before the data of a reply of n bytes that ends
// the request, in one chunk at most ["Simple reply message", "Structured reply chunk
// message"]. Only reads have data, and only without an error; where structured
// replies were agreed on, every reply to a read or to BLOCK_STATUS must be one. That of
// the latter says of all that it is allocated, as far as anybody knows.
func AppendReply(b []byte, r *Request, structured bool, err Errno, n int) []byte {
	if !structured || r.Command != CmdRead && r.Command != CmdBlockStatus {
		b = binary.BigEndian.AppendUint32(b, magicSimpleReply)
		b = binary.BigEndian.AppendUint32(b, uint32(err))
		return binary.BigEndian.AppendUint64(b, uint64(r.Cookie))
	}
	if err != OK {
		b = appendChunk(b, chunkError, r.Cookie, 6)
		b = binary.BigEndian.AppendUint32(b, uint32(err))
		return binary.BigEndian.AppendUint16(b, 0) // of a text
	}
	if r.Command == CmdBlockStatus {
		b = appendChunk(b, chunkStatus, r.Cookie, 12)
		b = binary.BigEndian.AppendUint32(b, allocationID)
		b = binary.BigEndian.AppendUint32(b, r.Length)
		return binary.BigEndian.AppendUint32(b, 0) // neither NBD_STATE_HOLE nor NBD_STATE_ZERO
	}
	b = appendChunk(b, chunkData, r.Cookie, 8+uint32(n))
	return binary.BigEndian.AppendUint64(b, r.Offset)
}

// Types of chunks.
const (
	chunkData   = 1
	chunkStatus = 5
	chunkError  = 1<<15 + 1

	chunkDone = 1 << 0 // flag of the last
)

func appendChunk(b []byte, kind uint16, cookie Cookie, length uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, magicStructuredReply)
	b = binary.BigEndian.AppendUint16(b, chunkDone)
	b = binary.BigEndian.AppendUint16(b, kind)
	b = binary.BigEndian.AppendUint64(b, uint64(cookie))
	return binary.BigEndian.AppendUint32(b, length)
}

// A Reply is what the head of a reply says, as a client reads it.
type Reply struct {
	Cookie Cookie
	Err    Errno
	Offset uint64 // of data in a chunk
	Length int    // bytes of data that follow; of a simple reply the client knows itself
	Extent Extent // of BLOCK_STATUS, from its offset
}

// An Extent is what is known of some bytes in the context base:allocation.
type Extent struct {
	Length uint32
	Flags  uint32
}

// DecodeReply reads the head of a reply and returns how long it is: 0 if b is too short.
func DecodeReply(b []byte) (r Reply, n int, err error) {
	if len(b) < simpleSize {
		return r, 0, nil
	}
	switch binary.BigEndian.Uint32(b) {
	case magicSimpleReply:
		return Reply{Cookie: Cookie(binary.BigEndian.Uint64(b[8:])), Err: Errno(binary.BigEndian.Uint32(b[4:]))}, simpleSize, nil
	case magicStructuredReply:
	default:
		return r, 0, ErrMagic
	}
	if len(b) < structuredSize {
		return r, 0, nil
	}
	length := int(binary.BigEndian.Uint32(b[16:]))
	r.Cookie = Cookie(binary.BigEndian.Uint64(b[8:]))
	switch body := b[structuredSize:]; {
	case binary.BigEndian.Uint16(b[6:]) == chunkError && length >= 6:
		if len(body) < length {
			return r, 0, nil
		}
		r.Err = Errno(binary.BigEndian.Uint32(body))
		return r, structuredSize + length, nil
	case binary.BigEndian.Uint16(b[6:]) == chunkStatus && length == 12:
		if len(body) < length {
			return r, 0, nil
		}
		r.Extent = Extent{binary.BigEndian.Uint32(body[4:]), binary.BigEndian.Uint32(body[8:])}
		return r, structuredSize + length, nil
	case binary.BigEndian.Uint16(b[6:]) == chunkData && length >= 8:
		if len(body) < 8 {
			return r, 0, nil
		}
		r.Offset, r.Length = binary.BigEndian.Uint64(body), length-8
		return r, structuredSize + 8, nil
	}
	return r, 0, errors.New("chunk of a kind that this server does not send")
}
