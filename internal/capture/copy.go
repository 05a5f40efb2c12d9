package capture

import (
	"fmt"
	"io"
)

// A Summary has the counts of a capture.
type Summary struct{ Packets, Seen, Dropped uint64 }

// Copy copies whole blocks from r to w until r ends, and counts them. It omits an incomplete last block, which would
// make the file damaged. It calls note with the comments of interfaces, on devices that were added or removed.
func Copy(w io.Writer, r io.Reader, note func(comment string)) (sum Summary, err error) {
	seen, dropped := map[uint32]uint64{}, map[uint32]uint64{}
	defer func() {
		for on := range seen {
			sum.Seen += seen[on]
			sum.Dropped += dropped[on]
		}
	}()
	block := make([]byte, 8, 4096)
	for {
		if _, err := io.ReadFull(r, block[:8]); err != nil {
			return sum, ended(err)
		}
		size := int(le.Uint32(block[4:8]))
		if size < blockOverhead || size > maxBlock || size%4 != 0 {
			return sum, fmt.Errorf("the received data is not pcapng: a block of %d bytes", size)
		}
		if size > cap(block) {
			block = append(make([]byte, 0, size), block[:8]...)
		}
		block = block[:size]
		if _, err := io.ReadFull(r, block[8:]); err != nil {
			return sum, ended(err)
		}
		if _, err := w.Write(block); err != nil {
			return sum, &WriteError{err}
		}
		switch kind := le.Uint32(block); {
		case kind == blockPacket:
			sum.Packets++
		case kind == blockStatistics && size >= statisticsSize:
			on := le.Uint32(block[8:])
			seen[on], dropped[on] = le.Uint64(block[24:]), le.Uint64(block[36:])
			say(note, block[20:size-4])
		case kind == blockInterface && size >= interfaceSize:
			say(note, block[16:size-4])
		}
	}
}

// Minimum sizes of the blocks of appendStatistics and appendInterface.
const (
	statisticsSize = 8 + 12 + 12 + 12 + 4 + 4
	interfaceSize  = 8 + 8 + 4
)

// say calls note with the comments among options.
func say(note func(string), options []byte) {
	for len(options) >= 4 {
		code, size := le.Uint16(options), int(le.Uint16(options[2:]))
		padded := 4 + size + -size&3
		if padded > len(options) {
			return
		}
		if code == optionComment {
			note(string(options[4 : 4+size]))
		}
		options = options[padded:]
	}
}

// A WriteError is an error of the writer to which a capture is copied.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// ended returns nil for the end of the stream, wherever it is, and otherwise err.
func ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}
