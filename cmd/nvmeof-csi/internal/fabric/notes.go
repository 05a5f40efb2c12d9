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

// The notes of a Kernel are what a driver has to know of the one before it, that was ended: the subsystems that it
// has connected to, those to which somebody else had connected before, and the volumes that it has attached and not
// detached. Nothing else says so of a volume whose device has gone. A note is a link, since a link is made whole or not at all, and its text is the name of the
// subsystem. The folder is empty when the machine starts, which then has no connections either.
const (
	defaultDir      = "/run/nvmeof-csi"
	subsystemNotes  = ".subsystem"
	sharedNotes     = ".shared" // beside the former: not all that is used there has a note
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
		switch {
		case errors.Is(failed, fs.ErrNotExist): // of another subsystem, in whose turn it went
		case failed != nil:
			return nil, failed
		default:
			all = append(all, nqn)
		}
	}
	return all, err
}

// remember notes what is about to be attached, before there is a connection, and reports whether the volume was not.
func (k *Kernel) remember(ctx context.Context, d Disk) (added bool, err error) {
	nqn := string(d.NQN)
	done, err := k.turns.take(ctx, nqn)
	if err != nil {
		return false, err
	}
	defer done()
	if was, _ := os.Readlink(k.notePath(subsystemNote(nqn), subsystemNotes)); was != nqn {
		if have, _ := k.controllers(nqn); len(have) > 0 { // who connects finds out what is wrong
			_, err = k.note(subsystemNote(nqn), sharedNotes, nqn)
		}
		if err == nil {
			_, err = k.note(subsystemNote(nqn), subsystemNotes, nqn)
		}
		if err != nil {
			return false, err
		}
	}
	return k.note(d.UUID, volumeNotes, nqn)
}

// used reports whether a namespace of a subsystem is in use that has no note. Without such a note of the subsystem
// those that are staged have one, and others are about to come or to go, unless somebody has mounted one who is not
// the driver.
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

// answerTime is for a device whose target may be away, and that somebody else opens just now.
const answerTime = time.Second

// isTaken reports whether a device is mounted, or of another device, or otherwise somebody's alone, in whatever
// container.
func isTaken(device string) bool {
	f, err := os.OpenFile(device, os.O_RDONLY|os.O_EXCL, 0)
	if err != nil {
		return !errors.Is(err, unix.ENXIO) && !errors.Is(err, unix.ENODEV)
	}
	_ = f.Close()
	return false
}

// Tidy implements Fabric: a driver that was ended may have had no time to disconnect.
func (k *Kernel) Tidy(ctx context.Context) error {
	all, err := k.subsystems(subsystemNotes, uuid.Nil)
	for _, nqn := range all {
		done, late := k.turns.take(ctx, nqn)
		if err = errors.Join(err, late); late == nil {
			err = errors.Join(err, k.disconnect(nqn, "", uuid.Nil))
			done()
		}
	}
	return err
}
