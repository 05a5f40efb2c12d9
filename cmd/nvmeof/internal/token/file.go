package token

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// Limits of a file.
const (
	maxFile    = 1 << 20
	maxEntries = 4096
	maxName    = 64
)

// prefix lets secret scanners recognize tokens.
const prefix = "nvmeof-"

// A Hash is the hash of a token.
type Hash [sha256.Size]byte

// An Entry describes a token without containing it.
type Entry struct {
	Name string
	Role control.Role
	Hash Hash
}

// A List is the tokens of a file.
type List []Entry

// New creates a token.
func New() (token string, hash Hash) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	token = prefix + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, HashOf(token)
}

// HashOf returns the hash of a token, as files contain it.
func HashOf(token string) Hash { return sha256.Sum256([]byte(token)) }

// Find returns the entry of the token with that hash. It compares all entries, so that its timing reveals nothing.
func (l List) Find(h Hash) (Entry, bool) {
	at := -1
	for i := range l {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(h[:], l[i].Hash[:]), i, at)
	}
	if at < 0 {
		return Entry{}, false
	}
	return l[at], true
}

// Parse parses lines of a name, a role and a hash. Empty lines and lines that begin with # are skipped.
func Parse(text []byte) (List, error) {
	var l List
	names := map[string]bool{}
	for n, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		e, err := parseEntry(line)
		switch {
		case err == nil && names[e.Name]:
			err = fmt.Errorf("%s exists already", e.Name)
		case len(l) == maxEntries:
			err = fmt.Errorf("more than %d tokens", maxEntries)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		names[e.Name] = true
		l = append(l, e)
	}
	return l, nil
}

func parseEntry(line string) (e Entry, err error) {
	words := strings.Fields(line)
	if len(words) != 3 {
		return e, errors.New("want a name, a role and a hash, as nvmeof token create writes them")
	}
	e.Name = words[0]
	if err := checkName(e.Name); err != nil {
		return e, err
	}
	if err := e.Role.UnmarshalText([]byte(words[1])); err != nil {
		return e, err
	}
	if n, err := hex.Decode(e.Hash[:], []byte(words[2][:min(len(words[2]), hex.EncodedLen(len(e.Hash)))])); err != nil || n != len(e.Hash) || len(words[2]) != hex.EncodedLen(n) {
		return e, errors.New("the hash is not a SHA-256 in hexadecimal: if it is the token itself, remove it and create another")
	}
	return e, nil
}

// checkName rejects names that a log or a table could not show unchanged.
func checkName(name string) error {
	for _, c := range name {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("._@-", c)) {
			return errors.New("a name may have only letters, digits and . _ @ -")
		}
	}
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name has 1 to %d characters", maxName)
	}
	return nil
}

func (l List) text() []byte {
	var b bytes.Buffer
	for _, e := range l {
		fmt.Fprintf(&b, "%s %s %x\n", e.Name, e.Role, e.Hash)
	}
	return b.Bytes()
}

// Read reads a file, which must not be readable by others than its owner.
func Read(ctx context.Context, path string) (List, error) {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("tokens: other users can access %s (%v): chmod 600 %s", path, info.Mode().Perm(), shell.Quote(path))
	}
	text, err := namedfile.Read(ctx, path, maxFile)
	if err != nil {
		return nil, missing(path, err)
	}
	l, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("tokens: %s: %w", path, err)
	}
	return l, nil
}
