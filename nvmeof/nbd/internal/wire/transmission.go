package wire

import (
	"encoding/binary"
	"errors"
)

// Sizes in bytes.
const (
	RequestSize = 28 // of a request's header
	// MaxReplyHead is the maximum length of what precedes the data of a reply.
	MaxReplyHead = structuredSize + 12

	simpleSize     = 16
	structuredSize = 20
)

// Cookie identifies a request to the client that sent it.
type Cookie uint64

// A Request is the header of a request ["Request message"].
type Request struct {
	Flags   CommandFlags
	Command Command
	Cookie  Cookie
	Offset  uint64 // bytes
	Length  uint32 // bytes
}

// ErrMagic reports that a message does not begin with its magic number. Nothing after it can be decoded.
var ErrMagic = errors.New("wrong magic number")

// DecodeRequest decodes a header from the first RequestSize bytes of b.
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

// Payload returns how many bytes of data follow the header.
func (r *Request) Payload() uint32 {
	if r.Command == CmdWrite {
		return r.Length
	}
	return 0
}

// AppendRequest appends an encoded header, for tests and clients.
func AppendRequest(b []byte, r Request) []byte {
	b = binary.BigEndian.AppendUint32(b, magicRequest)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Flags))
	b = binary.BigEndian.AppendUint16(b, uint16(r.Command))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Cookie))
	b = binary.BigEndian.AppendUint64(b, r.Offset)
	return binary.BigEndian.AppendUint32(b, r.Length)
}

// AppendReply appends what precedes the n bytes of data in the only reply to a request ["Simple reply message",
// "Structured reply chunk message"]. The reply has one chunk at most. Only successful reads have data. If structured
// replies were negotiated, every reply to a READ or BLOCK_STATUS must be one. The reply to BLOCK_STATUS returns that
// all blocks are allocated.
func AppendReply(b []byte, r *Request, structured bool, err Errno, n int) []byte {
	if !structured || r.Command != CmdRead && r.Command != CmdBlockStatus {
		b = binary.BigEndian.AppendUint32(b, magicSimpleReply)
		b = binary.BigEndian.AppendUint32(b, uint32(err))
		return binary.BigEndian.AppendUint64(b, uint64(r.Cookie))
	}
	if err != OK {
		b = appendChunk(b, chunkError, r.Cookie, 6)
		b = binary.BigEndian.AppendUint32(b, uint32(err))
		return binary.BigEndian.AppendUint16(b, 0) // length of the text
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

	chunkDone = 1 << 0 // flag of the last chunk
)

func appendChunk(b []byte, kind uint16, cookie Cookie, length uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, magicStructuredReply)
	b = binary.BigEndian.AppendUint16(b, chunkDone)
	b = binary.BigEndian.AppendUint16(b, kind)
	b = binary.BigEndian.AppendUint64(b, uint64(cookie))
	return binary.BigEndian.AppendUint32(b, length)
}

// A Reply is the decoded head of a reply.
type Reply struct {
	Cookie Cookie
	Err    Errno
	Offset uint64 // of the data in a chunk
	Length int    // bytes of data that follow; in a simple reply the client knows them itself
	Extent Extent // of BLOCK_STATUS, from the request's offset
}

// An Extent is the status of a number of bytes in the context base:allocation.
type Extent struct {
	Length uint32
	Flags  uint32
}

// DecodeReply decodes the head of a reply and returns its length, or 0 if b is too short.
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
