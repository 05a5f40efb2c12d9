package sealed

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// A record has a JSON body and its checksum.
type record struct {
	Version  int             `json:"version"`
	Checksum string          `json:"crc32c"` // of the bytes of State, in hexadecimal
	State    json.RawMessage `json:"state"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

// ErrDamaged means that a record differs from what was sealed.
var ErrDamaged = errors.New("the record is damaged")

// Seal returns a record with a version and a JSON body.
func Seal(version int, body []byte) ([]byte, error) {
	return json.Marshal(record{version, checksum(body), body})
}

// Open returns the body of a record.
func Open(version int, b []byte) (body []byte, err error) {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case r.Version != version:
		return nil, fmt.Errorf("the record has version %d, and this program knows version %d", r.Version, version)
	case checksum(r.State) != r.Checksum:
		return nil, fmt.Errorf("%w: its checksum is %s, that of its content %s", ErrDamaged, r.Checksum, checksum(r.State))
	}
	return r.State, nil
}
