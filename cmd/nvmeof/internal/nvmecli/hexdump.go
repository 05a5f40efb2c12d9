package nvmecli

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Dump prints bytes as nvme-cli does: rows of 16 with the text beside them, or in JSON the text alone. The JSON key
// lacks the address that nvme-cli has there.
func (o Output) Dump(data []byte) error {
	return o.either(func(b *strings.Builder) { hexDump(b, data) }, func() any { return dumpJSON(data) })
}

func dumpJSON(data []byte) object {
	return object{{fmt.Sprintf("data: len=%d width=16 group=1", len(data)), dumpRows(data)}}
}

func hexDump(b *strings.Builder, data []byte) {
	b.WriteString("       0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f")
	for off := 0; off < len(data); off += 16 {
		row := data[off:min(off+16, len(data))]
		fmt.Fprintf(b, "\n%04x:", off)
		for _, c := range row {
			fmt.Fprintf(b, " %02x", c)
		}
		if len(row) < 16 {
			b.WriteString(strings.Repeat("   ", 16-len(row)) + " ") // nvme-cli prints one more than would align the text
		}
		fmt.Fprintf(b, " \"%s\"", printableBytes(row))
	}
	b.WriteByte('\n')
}

// printableBytes replaces each byte that is not visible ASCII by a dot.
func printableBytes(row []byte) string {
	text := make([]byte, len(row))
	for i, c := range row {
		text[i] = c
		if c < '!' || c > '~' {
			text[i] = '.'
		}
	}
	return string(text)
}

// GetLog prints the bytes of a log page as `nvme get-log` does. The JSON is one object that contains all bytes in
// hexadecimal; nvme-cli prints a line of text before its object there, and omits bytes that are not text.
func (o Output) GetLog(lid uint8, nsid uint32, data []byte) error {
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "Device:%s log-id:%d namespace-id:%s\n", o.Device, lid, hexed(nsid))
		hexDump(b, data)
	}, func() any {
		return object{{"device", o.Device}, {"log_id", integer(lid)}, {"nsid", integer(nsid)}, {"data", hex.EncodeToString(data)}}
	})
}

// dumpRows returns the texts of rows of 16 bytes.
func dumpRows(data []byte) []string {
	rows := []string{}
	for ; len(data) > 0; data = data[min(16, len(data)):] {
		rows = append(rows, printableBytes(data[:min(16, len(data))]))
	}
	return rows
}
