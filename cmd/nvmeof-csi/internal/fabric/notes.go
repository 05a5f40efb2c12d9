package fabric

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// The notes of a Kernel are what a driver has to know of the one before it, that was ended: the subsystems that it
// has connected to, and the volumes that it has attached and not detached. Nothing else says so of a volume whose
// device has gone. A note is a link, since a link is made whole or not at all, and its text is the name of the
// subsystem. The folder is empty when the machine starts, which then has no connections either.
const (
	defaultDir      = "/run/nvmeof-csi"
	subsystemNotes  = ".subsystem"
	volumeNotes     = ".volume"
	onlyOwnersEnter = 0o700
)

func (k *Kernel) notePath(u uuid.UUID, kind string) string {
	return filepath.Join(cmp.Or(k.Dir, defaultDir), u.String()+kind)
}

func subsystemNote(nqn string) uuid.UUID { return uuid.NewSHA1(uuid.Nil, []byte(nqn)) }

// note leaves a note, and reports whether there was none.
func (k *Kernel) note(u uuid.UUID, kind, nqn string) (added bool, err error) {
	path := k.notePath(u, kind)
	if was, err := os.Readlink(path); err == nil && was == nqn {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), onlyOwnersEnter); err != nil {
		return false, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, os.Symlink(nqn, path)
}

// forget takes a note away, if there is one.
func (k *Kernel) forget(u uuid.UUID, kind string) error {
	if err := os.Remove(k.notePath(u, kind)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// subsystems are those of the notes of a kind, without that of one volume.
func (k *Kernel) subsystems(kind string, but uuid.UUID) (all []string, err error) {
	notes, err := filepath.Glob(filepath.Join(cmp.Or(k.Dir, defaultDir), "*"+kind))
	for _, path := range notes {
		if path == k.notePath(but, kind) {
			continue
		}
		nqn, failed := os.Readlink(path)
		if failed != nil {
			return nil, failed
		}
		all = append(all, nqn)
	}
	return all, err
}

// remember notes what is about to be attached, before there is a connection, and reports whether the volume was not.
func (k *Kernel) remember(d Disk) (added bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.note(subsystemNote(string(d.NQN)), subsystemNotes, string(d.NQN)); err != nil {
		return false, err
	}
	return k.note(d.UUID, volumeNotes, string(d.NQN))
}

// Tidy implements Fabric. The last volume of a subsystem may be detached while another one's device is there yet,
// which goes as soon as the controller withdraws it.
func (k *Kernel) Tidy(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, err := k.subsystems(subsystemNotes, uuid.Nil)
	for _, nqn := range all {
		err = errors.Join(err, k.disconnect(nqn, "", uuid.Nil))
	}
	return err
}
