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

// magic begins the header: the name and the version of the format.
const magic = "nvmeof-events 1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal makes a record of text: a checksum, the text, spaces, and a line feed. It is nil
// where the text is too long.
func seal(text []byte) []byte {
	b := fmt.Appendf(make([]byte, 0, recordSize), "%08x %s", crc32.Checksum(text, castagnoli), text)
	if len(b) >= recordSize {
		return nil
	}
	b = append(b, bytes.Repeat([]byte{' '}, recordSize-1-len(b))...)
	return append(b, '\n')
}

// unseal returns the text of a record, nil if it is torn or damaged.
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

// encode makes a record of an event. Where that is too long the text is cut.
func encode(e Event) []byte {
	for {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(e) // nothing in it can fail
		if r := seal(bytes.TrimSpace(b.Bytes())); r != nil {
			return r
		}
		if e.Text == "" {
			e.Subsystem, e.Host = "", "" // of escaped characters alone
		}
		e.Text = e.Text[:len(e.Text)/2]
	}
}

// decode reads the record of an event.
func decode(b []byte) (e Event, ok bool) {
	text := unseal(b)
	if text == nil || json.Unmarshal(text, &e) != nil || e.Seq == 0 {
		return Event{}, false
	}
	e.trim()
	return e, true
}

// encodeHeader makes the first record of a file.
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
