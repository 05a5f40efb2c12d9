package fabric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// The kernel gives up each path on its own, ctrl_loss_tmo after it was lost, and does not look for it again: if one
// gateway of several is away for longer, or was away when a volume was staged, the node would be left with the other
// paths until a volume is staged next. So Tidy connects what is missing while a volume is attached.

// A path is an address of a subsystem.
type path struct {
	nqn string
	at  netip.AddrPort
}

// A pause is the number of calls of Tidy that do not try a path: that it has after a failure, and those left of it.
type pause struct{ length, left int }

// longestPause limits the pauses, each of which is twice as long as the one before: an address may be one that this
// machine never reaches.
const longestPause = 7

// after returns the pause that follows p and a further failure.
func (p pause) after() pause {
	n := min(2*p.length+1, longestPause)
	return pause{n, n}
}

// reconnect connects to a subsystem by the missing paths of its attached volumes, and adds the pauses of those that
// fail to pauses.
func (k *Kernel) reconnect(ctx context.Context, nqn string, pauses map[path]pause) error {
	all, err := k.addresses(nqn)
	for _, at := range all {
		p := path{nqn, at}
		was := k.pauses[p]
		if was.left > 0 {
			was.left--
			pauses[p] = was
			continue
		}
		if failed := k.restore(ctx, p); failed != nil {
			pauses[p] = was.after()
			err = errors.Join(err, failed)
		}
	}
	return err
}

// restore connects by a path if it is missing and its subsystem has another one. Without any, the kernel has removed
// the devices, and what used them has failed; or an administrator has disconnected. The lock is held for one path at a
// time, since the kernel takes seconds for one that does not answer.
func (k *Kernel) restore(ctx context.Context, p path) error {
	done, err := k.turns.take(ctx, p.nqn)
	if err != nil {
		return err
	}
	defer done()
	if wanted, err := k.addresses(p.nqn); err != nil || !slices.Contains(wanted, p.at) {
		return err // detached meanwhile
	}
	have, err := k.controllers(p.nqn)
	have = slices.DeleteFunc(have, func(c controller) bool { return !c.stays() })
	if err != nil || len(have) == 0 || slices.ContainsFunc(have, func(c controller) bool { return c.at(p.at) }) {
		return err
	}
	for _, d := range k.disks(p.nqn, have) {
		if err = k.ask(d, p.at); err == nil {
			return nil
		}
	}
	return fmt.Errorf("connecting to %s again at %s: %w%s", p.nqn, p.at, err, k.reason(err))
}

// disks returns the disks to connect with, which differ in their keys: those of the controllers, from the kernel,
// since a driver that was restarted has no others. They differ if the keys were changed.
func (k *Kernel) disks(nqn string, have []controller) (all []Disk) {
	for _, c := range have {
		secret := func(name string) string {
			return strings.TrimPrefix(attribute(k.sys("class", "nvme", c.name, name)), "none")
		}
		d := Disk{NQN: nvmeof.NQN(nqn), Key: secret("dhchap_secret"), ControllerKey: secret("dhchap_ctrl_secret")}
		if !slices.ContainsFunc(all, func(o Disk) bool { return o.Key == d.Key && o.ControllerKey == d.ControllerKey }) {
			all = append(all, d)
		}
	}
	return all
}

// noteAddresses writes the note of the addresses of a volume.
func (k *Kernel) noteAddresses(d Disk) error {
	if len(d.Addresses) == 0 {
		return nil
	}
	_, err := k.note(d.UUID, addressNotes, strings.Join(d.Addresses, ","))
	return err
}

// addresses returns the addresses of the attached volumes of a subsystem, from their notes. Volumes attached by an
// earlier version of the driver have none.
func (k *Kernel) addresses(nqn string) (all []netip.AddrPort, err error) {
	notes, err := filepath.Glob(filepath.Join(cmp.Or(k.Dir, defaultDir), "*"+volumeNotes))
	for _, note := range notes {
		if of, _ := os.Readlink(note); of != nqn { // or it was removed meanwhile
			continue
		}
		text, failed := os.Readlink(strings.TrimSuffix(note, volumeNotes) + addressNotes)
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
		for one := range strings.SplitSeq(text, ",") {
			if at, failed := netip.ParseAddrPort(one); failed == nil && !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
	}
	return all, err
}
