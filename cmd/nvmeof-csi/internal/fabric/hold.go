package fabric

import (
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"
)

// ErrGone is returned if a volume lost its device during the search for it.
var ErrGone = errors.New("the volume has lost its device")

// A Held is the device of a volume, kept open. Until it is closed, the kernel gives neither its name nor its number to
// another disk, and does not connect an NBD device to another volume. Path can be passed to programs meanwhile; it is
// empty if there is no device.
type Held struct {
	Path string
	open *os.File
}

// Close releases the device.
func (h *Held) Close() error {
	if h.open == nil {
		return nil
	}
	return h.open.Close()
}

// hold finds a device, opens it, and checks that it is still the volume's.
func hold(find func(uuid.UUID) (string, error), u uuid.UUID) (*Held, error) {
	path, err := find(u)
	switch {
	case err != nil:
		return nil, err
	case path == "":
		return &Held{}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	if now, err := find(u); err != nil || now != path {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, ErrGone), err, f.Close())
	}
	return &Held{path, f}, nil
}

// Hold implements Fabric.
func (k *Kernel) Hold(u uuid.UUID) (*Held, error) { return hold(k.Find, u) }

// Hold implements Fabric.
func (a *Attached) Hold(u uuid.UUID) (*Held, error) { return hold(a.Find, u) }
