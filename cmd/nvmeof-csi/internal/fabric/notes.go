package fabric

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// The notes of a Kernel tell a driver what an earlier driver, which was killed, has done: the subsystems to which it
// has connected, those to which something else had connected before, and the volumes that it has attached and not
// detached, with their addresses. Once the device of a volume is gone, nothing else records the volume. A note is a
// symbolic link, since creating one is atomic; its target is the NQN of the subsystem, or the addresses. The directory
// is empty after a boot, when there are no connections either.
const (
	defaultDir      = "/run/nvmeof-csi"
	subsystemNotes  = ".subsystem"
	sharedNotes     = ".shared" // in addition to the former: its volumes may be used without a note
	volumeNotes     = ".volume"
	addressNotes    = ".addresses" // in addition to the former: ADDRESS:PORT,ADDRESS:PORT...
	onlyOwnersEnter = 0o700
)

func (k *Kernel) notePath(u uuid.UUID, kind string) string {
	return filepath.Join(cmp.Or(k.Dir, defaultDir), u.String()+kind)
}

func subsystemNote(nqn string) uuid.UUID { return uuid.NewSHA1(uuid.Nil, []byte(nqn)) }

// note writes a note, and reports whether it did not exist before.
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

// forget removes a note, if it exists.
func (k *Kernel) forget(u uuid.UUID, kind string) error {
	if err := os.Remove(k.notePath(u, kind)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// forgetVolume removes the notes of a volume.
func (k *Kernel) forgetVolume(u uuid.UUID) error {
	if err := k.forget(u, addressNotes); err != nil {
		return err
	}
	return k.forget(u, volumeNotes)
}

// subsystems returns the NQNs in the notes of a kind, without the note of one volume.
func (k *Kernel) subsystems(kind string, but uuid.UUID) (all []string, err error) {
	notes, err := filepath.Glob(filepath.Join(cmp.Or(k.Dir, defaultDir), "*"+kind))
	for _, path := range notes {
		if path == k.notePath(but, kind) {
			continue
		}
		nqn, failed := os.Readlink(path)
		switch {
		case errors.Is(failed, fs.ErrNotExist): // of another subsystem, removed with that one's lock held
		case failed != nil:
			return nil, failed
		default:
			all = append(all, nqn)
		}
	}
	return all, err
}

// remember writes the notes of a volume before it is connected, and reports whether the volume had none.
func (k *Kernel) remember(ctx context.Context, d Disk) (added bool, err error) {
	nqn := string(d.NQN)
	done, err := k.turns.take(ctx, nqn)
	if err != nil {
		return false, err
	}
	defer done()
	if was, _ := os.Readlink(k.notePath(subsystemNote(nqn), subsystemNotes)); was != nqn {
		if have, _ := k.controllers(nqn); len(have) > 0 { // an error shows up when connecting
			_, err = k.note(subsystemNote(nqn), sharedNotes, nqn)
		}
		if err == nil {
			_, err = k.note(subsystemNote(nqn), subsystemNotes, nqn)
		}
		if err != nil {
			return false, err
		}
	}
	if added, err = k.note(d.UUID, volumeNotes, nqn); err == nil {
		err = k.noteAddresses(d)
	}
	return added, err
}

// used reports whether a namespace without a note is in use. If anything else than the driver has connected to the
// subsystem, every namespace counts as used. Otherwise staged volumes have notes, and a namespace without one is just
// appearing or disappearing, or was mounted by a user: used checks the device for the latter.
func (k *Kernel) used(nqn, name string) bool {
	if text, err := os.Readlink(k.notePath(subsystemNote(nqn), subsystemNotes)); err != nil || text != nqn {
		return true
	}
	if _, err := os.Readlink(k.notePath(subsystemNote(nqn), sharedNotes)); !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	taken := make(chan bool, 1)
	go func() { taken <- isTaken(k.dev(name)) }() // ends with what the device waits for
	select {
	case is := <-taken:
		return is
	case <-time.After(answerTime):
		return true
	}
}

// answerTime limits the check of a device whose target may be away and that another process is opening.
const answerTime = time.Second

// isTaken reports whether a device is mounted, part of another device, or otherwise opened exclusively, in any
// container.
func isTaken(device string) bool {
	f, err := os.OpenFile(device, os.O_RDONLY|os.O_EXCL, 0)
	if err != nil {
		return !errors.Is(err, unix.ENXIO) && !errors.Is(err, unix.ENODEV)
	}
	_ = f.Close()
	return false
}

// Tidy implements Fabric: a driver that was killed may not have disconnected. Only one call may run at a time.
func (k *Kernel) Tidy(ctx context.Context) error {
	pauses := map[path]pause{}
	defer func() { k.pauses = pauses }()
	all, err := k.subsystems(subsystemNotes, uuid.Nil)
	for _, nqn := range all {
		done, late := k.turns.take(ctx, nqn)
		if err = errors.Join(err, late); late == nil {
			err = errors.Join(err, k.disconnect(nqn, "", uuid.Nil))
			done()
		}
		err = errors.Join(err, k.reconnect(ctx, nqn, pauses))
	}
	return err
}
