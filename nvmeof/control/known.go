package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// known are the files that were there once and that the document has a size to create: hosts
// may know what was in them. It is a folder, with a file for each that has its mark, that
// outlives the target and is not where the files are, since it is their file system that
// may be missing. The zero value keeps nothing.
type known string

// entry names the record of a namespace.
func (k known) entry(n *config.Namespace) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%x\x00%x\x00%x", n.Path(), n.UUID, n.NGUID, n.EUI64))
	return filepath.Join(string(k), hex.EncodeToString(sum[:16]))
}

// add notes that the file of a namespace is there. undo makes the note what it was.
func (k known) add(n *config.Namespace) (undo func() error, err error) {
	undo = func() error { return nil }
	if k == "" {
		return undo, errors.New("there is no folder to note in that it was there")
	}
	name, mark := k.entry(n), file.ReadMark(string(n.Path()))
	before, missing := os.ReadFile(name)
	if missing == nil && bytes.Equal(before, mark) {
		return undo, nil
	}
	if err := os.MkdirAll(string(k), 0o700); err != nil {
		return undo, err
	}
	undo = func() error { return os.WriteFile(name, before, 0o600) }
	if missing != nil {
		undo = func() error { return os.RemoveAll(name) } // it may not have come to it
	}
	return undo, os.WriteFile(name, mark, 0o600)
}

// has reports whether the file was there, as far as is known.
func (k known) has(n *config.Namespace) bool {
	if k == "" {
		return false
	}
	_, err := os.Lstat(k.entry(n))
	return err == nil
}

// mark is that of the file of a namespace, or of the one that was there.
func (k known) mark(n *config.Namespace) []byte {
	if n.File == nil {
		return nil
	}
	if mark := file.ReadMark(string(n.Path())); mark != nil || k == "" || !missing(n.Path()) {
		return mark
	}
	mark, _ := os.ReadFile(k.entry(n)) // what was never there has none
	return mark
}
