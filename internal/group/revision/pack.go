package revision

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// packed is a text, compressed in pieces. Each piece is a member in the gzip format (RFC 1952). Together they are one
// file, so that a reader that knows nothing of pieces can read the whole.
type packed struct {
	text, packed []byte
	hash         string // of the compressed bytes
	pieces       []piece
}

// A piece is a part of a text and its compressed form.
type piece struct{ text, packed span }

type span struct{ from, to int }

// A piece ends at the end of a line. Which line that is depends only on the line's content, so that the pieces after a
// change stay the same.
const (
	minPiece = 4 << 10
	maxPiece = 64 << 10
	oneIn    = 64 // one line in this many may end a piece
)

// spare is room for what a text has more than the one before.
const spare = 16 << 10

// The extra field of a member (RFC 1952, section 2.3.1.1) that contains the length of the member.
const (
	memberID   = "NV"
	extraAt    = 12 // after the header and the length of the field
	extraSize  = 8  // the identifier, the length of the value, and the value
	memberSize = extraAt + extraSize
)

// pack compresses a text. It reuses the pieces that also are in the one before.
func pack(text []byte, before *packed) (*packed, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%w: the configuration has %d bytes, at most %d are allowed", state.ErrTooLarge, len(text), MaxText)
	}
	p := &packed{text: text, packed: make([]byte, 0, len(before.packed)+spare)}
	old := seeker{pieces: before.pieces}
	var z *gzip.Writer
	for from := 0; from < len(text) || len(p.pieces) == 0; {
		to := from + nextPiece(text[from:])
		at := len(p.packed)
		if same := old.find(func(o piece) bool { return bytes.Equal(o.text.of(before.text), text[from:to]) }); same != nil {
			p.packed = append(p.packed, same.packed.of(before.packed)...)
		} else {
			var err error
			if p.packed, err = compress(&z, p.packed, text[from:to]); err != nil {
				return nil, err
			}
		}
		p.pieces = append(p.pieces, piece{span{from, to}, span{at, len(p.packed)}})
		from = to
	}
	p.hash = hashOf(p.packed)
	return p, nil
}

// nextPiece returns the length of the first piece of a text.
func nextPiece(text []byte) int {
	for from := 0; ; {
		n := bytes.IndexByte(text[from:], '\n') + 1
		switch to := from + n; {
		case n == 0 || to > maxPiece:
			return min(len(text), maxPiece)
		case to >= minPiece && crc32.ChecksumIEEE(text[from:to])%oneIn == 0:
			return to
		default:
			from = to
		}
	}
}

// compress appends a member. It creates the writer, which is large, for the first one.
func compress(z **gzip.Writer, out, text []byte) ([]byte, error) {
	to := bytes.NewBuffer(out)
	if *z == nil {
		var err error
		if *z, err = gzip.NewWriterLevel(to, gzip.BestSpeed); err != nil { // the first revision needs all pieces
			return nil, err
		}
	}
	(*z).Reset(to)
	(*z).Extra = append([]byte(memberID), 4, 0, 0, 0, 0, 0)
	_, err := (*z).Write(text)
	if err = errors.Join(err, (*z).Close()); err != nil {
		return nil, err
	}
	all := to.Bytes()
	member := all[len(out):]
	binary.LittleEndian.PutUint32(member[memberSize-4:], uint32(len(member)))
	return all, nil
}

// memberLen returns the length of the first member of a file, or of the whole file if the member does not contain its
// length.
func memberLen(file []byte) int {
	const hasExtra = 4 // flag of the header
	if len(file) < memberSize || file[3]&hasExtra == 0 || binary.LittleEndian.Uint16(file[10:]) != extraSize || string(file[extraAt:extraAt+2]) != memberID {
		return len(file)
	}
	n := binary.LittleEndian.Uint32(file[memberSize-4:])
	if n < memberSize || uint64(n) > uint64(len(file)) {
		return len(file)
	}
	return int(n)
}

// unpack decompresses a file. It reuses the pieces that also are in the one before. It does not set the hash.
func unpack(file []byte, before *packed) (*packed, error) {
	p := &packed{text: make([]byte, 0, len(before.text)+spare), packed: file}
	old := seeker{pieces: before.pieces}
	for at := 0; at < len(file); {
		end := at + memberLen(file[at:])
		from := len(p.text)
		if same := old.find(func(o piece) bool { return bytes.Equal(o.packed.of(before.packed), file[at:end]) }); same != nil {
			p.text = append(p.text, same.text.of(before.text)...)
		} else {
			z, err := gzip.NewReader(bytes.NewReader(file[at:end]))
			if err != nil {
				return nil, err
			}
			text, err := io.ReadAll(io.LimitReader(z, int64(MaxText+1-from)))
			if err != nil {
				return nil, err
			}
			p.text = append(p.text, text...)
		}
		if len(p.text) > MaxText {
			return nil, fmt.Errorf("it has more than %d bytes", MaxText)
		}
		p.pieces = append(p.pieces, piece{span{from, len(p.text)}, span{at, end}})
		at = end
	}
	return p, nil
}

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

// A seeker finds the pieces of one text in another text, where most are in the same order.
type seeker struct {
	pieces []piece
	at     int // where the next one is expected
}

// seekAhead is how many pieces may be skipped before the next one.
const seekAhead = 64

// find returns the next matching piece, or nil if there is none nearby.
func (s *seeker) find(is func(piece) bool) *piece {
	ahead := s.pieces[s.at:min(s.at+seekAhead, len(s.pieces))]
	i := slices.IndexFunc(ahead, is)
	if i < 0 {
		return nil
	}
	s.at += i + 1
	return &ahead[i]
}
