package auth

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Key is a secret that a host and a subsystem share, with the hash by which it is transformed before use. The zero
// Key means no key. Package fmt prints a placeholder: only Text reveals the secret.
type Key struct {
	// data is a function because package fmt prints functions as addresses, with every verb and however deeply the Key
	// is nested in a structure.
	data func() *keyData
}

type keyData struct {
	hash   Hash
	secret []byte
}

const (
	keyPrefix = "DHHC-1:"
	keySeed   = "NVMe-over-Fabrics"
)

// Errors of ParseKey and NewKey.
var (
	ErrKeyForm   = errors.New(`key is not of the form "DHHC-1:NN:...:", as nvme gen-dhchap-key prints it`)
	ErrKeyHash   = errors.New("key asks for a hash other than 00 (none), 01 (SHA-256), 02 (SHA-384) or 03 (SHA-512)")
	ErrKeyBase64 = errors.New("middle part of the key is not base64: was it cut or wrapped?")
	ErrKeyLength = errors.New("secret of the key is not 32, 48 or 64 bytes long")
	ErrKeyCRC    = errors.New("checksum of the key is wrong: it was mistyped or changed")
)

// NewKey returns a key with a copy of a secret of 32, 48 or 64 bytes.
func NewKey(h Hash, secret []byte) (Key, error) {
	switch {
	case h != HashNone && !h.Usable():
		return Key{}, ErrKeyHash
	case len(secret) != 32 && len(secret) != 48 && len(secret) != 64:
		return Key{}, fmt.Errorf("%w but %d", ErrKeyLength, len(secret))
	}
	d := &keyData{h, append([]byte(nil), secret...)}
	return Key{func() *keyData { return d }}, nil
}

// GenerateKey returns a key with a random secret that is as long as the hash, or 32 bytes for HashNone. random should
// be [crypto/rand.Reader], except in tests.
func GenerateKey(h Hash, random io.Reader) (Key, error) {
	secret := make([]byte, max(h.Size(), 32))
	if _, err := io.ReadFull(random, secret); err != nil {
		return Key{}, fmt.Errorf("drawing a secret: %w", err)
	}
	return NewKey(h, secret)
}

// DeriveKey returns the key that nvme-cli 2.x makes of --secret and --nqn: if h is a hash, the key has the secret
// transformed for that host, which is transformed again when it is used.
func DeriveKey(h Hash, secret []byte, nqn nvmeof.NQN) (Key, error) {
	k, err := NewKey(h, secret)
	if err != nil || h == HashNone {
		return k, err
	}
	return NewKey(h, k.transform(string(nqn)))
}

// ParseKey parses the representation of keys in NVMe base 2.0, 8.13.5: "DHHC-1:", the hash as two digits, and in base64
// the secret followed by its CRC-32, little endian, each followed by a colon. Surrounding space is ignored.
func ParseKey(s string) (Key, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), keyPrefix)
	digits, text, ok2 := strings.Cut(rest, ":")
	text, ok3 := strings.CutSuffix(text, ":")
	if !ok || !ok2 || !ok3 || len(digits) != 2 {
		return Key{}, ErrKeyForm
	}
	if digits[0] != '0' || digits[1] < '0' || digits[1] > '3' {
		return Key{}, ErrKeyHash
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return Key{}, ErrKeyBase64
	}
	if len(b) < crc32.Size {
		return Key{}, ErrKeyLength
	}
	secret, sum := b[:len(b)-crc32.Size], binary.LittleEndian.Uint32(b[len(b)-crc32.Size:])
	k, err := NewKey(Hash(digits[1]-'0'), secret)
	if err == nil && crc32.ChecksumIEEE(secret) != sum {
		return Key{}, ErrKeyCRC
	}
	return k, err
}

// Text returns the key in the form that ParseKey parses, including the secret. It is empty if there is no key.
func (k Key) Text() string {
	if k.IsZero() {
		return ""
	}
	d := k.data()
	b := binary.LittleEndian.AppendUint32(append([]byte(nil), d.secret...), crc32.ChecksumIEEE(d.secret))
	return fmt.Sprintf("%s%02x:%s:", keyPrefix, uint8(d.hash), base64.StdEncoding.EncodeToString(b))
}

// String returns a description without the secret.
func (k Key) String() string {
	if k.IsZero() {
		return "no key"
	}
	d := k.data()
	return fmt.Sprintf("%s%02x:(%d bytes, hidden):", keyPrefix, uint8(d.hash), len(d.secret))
}

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.data == nil }

// transform returns the key as used by the party with the NQN: the HMAC of the NQN under the secret, or the secret
// itself if the key has no hash.
func (k Key) transform(nqn string) []byte {
	d := k.data()
	if d.hash == HashNone {
		return d.secret
	}
	return d.hash.mac(d.secret, []byte(nqn), []byte(keySeed))
}
