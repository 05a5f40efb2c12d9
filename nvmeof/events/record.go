package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
)

// recordSize is the length of a record, in bytes.
const recordSize = 1024

// magic begins the header. It has the name and the version of the format.
const magic = "nvmeof-events 1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns a record: a checksum, the text, spaces, and a line feed. It returns nil if the text is too long.
func seal(text []byte) []byte {
	b := fmt.Appendf(make([]byte, 0, recordSize), "%08x %s", crc32.Checksum(text, castagnoli), text)
	if len(b) >= recordSize {
		return nil
	}
	b = append(b, bytes.Repeat([]byte{' '}, recordSize-1-len(b))...)
	return append(b, '\n')
}

// unseal returns the text of a record, or nil if it is torn or damaged.
func unseal(b []byte) []byte {
	if len(b) != recordSize || b[8] != ' ' {
		return nil
	}
	sum, err := strconv.ParseUint(string(b[:8]), 16, 32)
	text := bytes.TrimRight(b[9:], " \n")
	if err != nil || uint32(sum) != crc32.Checksum(text, castagnoli) {
		return nil
	}
	return text
}

// encode returns the record of an event. It shortens the event's text if the record would be too long.
func encode(e Event) []byte {
	for {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(e) // an Event can always be encoded
		if r := seal(bytes.TrimSpace(b.Bytes())); r != nil {
			return r
		}
		if e.Text == "" {
			e.Subsystem, e.Host = "", "" // names of which each character is escaped
		}
		e.Text = e.Text[:len(e.Text)/2]
	}
}

// decode decodes the record of an event.
func decode(b []byte) (e Event, ok bool) {
	text := unseal(b)
	if text == nil || json.Unmarshal(text, &e) != nil || e.Seq == 0 {
		return Event{}, false
	}
	e.trim()
	return e, true
}

// encodeHeader returns the first record of a file.
func encodeHeader(id string, entries int) []byte {
	return seal(fmt.Appendf(nil, "%s %s %d", magic, id, entries))
}

func decodeHeader(b []byte) (id string, entries int, ok bool) {
	text := unseal(b)
	if text == nil || !bytes.HasPrefix(text, []byte(magic+" ")) {
		return "", 0, false
	}
	if n, _ := fmt.Sscanf(string(text[len(magic):]), " %16s %d", &id, &entries); n != 2 {
		return "", 0, false
	}
	return id, entries, len(id) == 16 && entries >= MinEntries && entries <= MaxEntries && entries%int(parts) == 0
}
