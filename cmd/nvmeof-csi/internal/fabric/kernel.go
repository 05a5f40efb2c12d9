// Package fabric makes devices of volumes: with the kernel's host through /dev/nvme-fabrics and sysfs, as nvme-cli does
// ([Kernel]), or with nvmeof attach and NBD ([Attached]).
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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Disk is a volume that a node needs.
type Disk struct {
	UUID      uuid.UUID
	NQN       nvmeof.NQN
	NSID      int
	Addresses []string // ADDRESS:PORT of the target; each is a path

	Key, ControllerKey string // for DH-HMAC-CHAP; empty: none
}

// A Kernel implements the Fabric of package driver with the kernel's host. Zero fields take the defaults.
type Kernel struct {
	Host    nvmeof.NQN // required
	HostID  uuid.UUID  // required
	Sys     string     // default /sys
	Dev     string     // default /dev
	Dir     string     // for notes for the next driver; default /run/nvmeof-csi
	Loss    int        // seconds until a lost target is given up, with its devices; -1: never; 0: 600
	Connect func(options string) error
	// Wait is how long the kernel may take to find a device; default 30 s.
	Wait time.Duration

	turns   turns          // by NQN: serializes connecting, disconnecting and writing the notes
	mu      sync.Mutex     // guards waiting
	waiting map[string]int // number of calls of Attach in progress, by subsystem: their connections are needed
	pauses  map[path]pause // of paths that could not be connected again; only Tidy uses them
}

const (
	defaultWait = 30 * time.Second
	defaultLoss = 600
	lookAgain   = 100 * time.Millisecond
	sectorSize  = 512 // unit of sizes in sysfs, whatever the device's block size
)

func (k *Kernel) sys(parts ...string) string {
	if k.Sys == "" {
		return filepath.Join("/sys", filepath.Join(parts...))
	}
	return filepath.Join(k.Sys, filepath.Join(parts...))
}

func (k *Kernel) dev(name string) string {
	if k.Dev == "" {
		return filepath.Join("/dev", name)
	}
	return filepath.Join(k.Dev, name)
}

// attribute returns the value of a file in sysfs; "" if it does not exist.
func attribute(parts ...string) string {
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// head matches the names of namespaces, but not those of their paths below multipath devices.
var head = regexp.MustCompile(`^nvme[0-9]+n[0-9]+$`)

// name returns the name of the namespace with a UUID; "" if there is none.
func (k *Kernel) name(u uuid.UUID) (string, error) {
	all, err := os.ReadDir(k.sys("block"))
	if err != nil {
		return "", err
	}
	for _, e := range all {
		if head.MatchString(e.Name()) && attribute(k.sys("block", e.Name(), "uuid")) == u.String() {
			return e.Name(), nil
		}
	}
	return "", nil
}

// Find implements Fabric.
func (k *Kernel) Find(u uuid.UUID) (string, error) {
	name, err := k.name(u)
	if err != nil || name == "" {
		return "", err
	}
	return k.dev(name), nil
}

// A controller is a controller in the kernel.
type controller struct{ name, nqn, address, state string }

// controllers returns the controllers of this host that are connected to a subsystem.
func (k *Kernel) controllers(nqn string) (all []controller, err error) {
	entries, err := os.ReadDir(k.sys("class", "nvme"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the kernel has no NVMe host: modprobe nvme-rdma")
	}
	for _, e := range entries {
		dir := k.sys("class", "nvme", e.Name())
		c := controller{e.Name(), attribute(dir, "subsysnqn"), attribute(dir, "address"), attribute(dir, "state")}
		if host := attribute(dir, "hostnqn"); c.nqn == nqn && (host == "" || host == string(k.Host)) {
			all = append(all, c)
		}
	}
	return all, err
}

// at reports whether a controller is connected to an address and is not being deleted.
func (c *controller) at(a netip.AddrPort) bool {
	fields := strings.Split(c.address, ",")
	return slices.Contains(fields, "traddr="+a.Addr().String()) && slices.Contains(fields, "trsvcid="+strconv.Itoa(int(a.Port()))) && c.stays()
}

// stays reports whether a controller is not being deleted.
func (c *controller) stays() bool {
	return !strings.HasPrefix(c.state, "deleting") && c.state != "dead"
}

// Attach implements Fabric. Existing paths are kept, and one path is enough. If there is no device in the end, Attach
// ends the connections, because without a namespace no other call would.
func (k *Kernel) Attach(ctx context.Context, d Disk) (device string, err error) {
	k.begin(string(d.NQN))
	added := false
	defer func() {
		if unused := k.end(context.WithoutCancel(ctx), d, err != nil, added); unused != nil {
			err = errors.Join(err, unused)
		}
	}()
	if added, err = k.remember(ctx, d); err != nil {
		return "", fmt.Errorf("record the attached volumes for the next start of the driver: %w", err)
	}
	return k.attach(ctx, d)
}

// begin counts a call that needs the connections to a subsystem.
func (k *Kernel) begin(nqn string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting == nil {
		k.waiting = map[string]int{}
	}
	k.waiting[nqn]++
}

// needed reports whether a call of Attach waits for the connections to a subsystem.
func (k *Kernel) needed(nqn string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waiting[nqn] > 0
}

// end ends what begin has begun. If the call failed, it removes the volume's note, if added, and disconnects unless
// the connections are used by other volumes.
func (k *Kernel) end(ctx context.Context, d Disk, failed, added bool) error {
	nqn := string(d.NQN)
	k.mu.Lock()
	if k.waiting[nqn]--; k.waiting[nqn] == 0 {
		delete(k.waiting, nqn)
	}
	k.mu.Unlock()
	if !failed {
		return nil
	}
	done, err := k.turns.take(ctx, nqn)
	if err != nil {
		return err
	}
	defer done()
	if added {
		if err := k.forgetVolume(d.UUID); err != nil {
			return err
		}
	}
	return k.disconnect(nqn, "", uuid.Nil)
}

func (k *Kernel) attach(ctx context.Context, d Disk) (string, error) {
	if err := k.connect(ctx, d); err != nil {
		return "", err
	}
	wait := k.Wait
	if wait == 0 {
		wait = defaultWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for first := true; ; first = false {
		name, err := k.name(d.UUID)
		if err != nil {
			return "", err
		}
		if name != "" {
			// The kernel shows only the first of several namespaces with the same UUID.
			if of := attribute(k.sys("block", name, "device", "subsysnqn")); of != "" && of != string(d.NQN) {
				return "", fmt.Errorf("%s has the UUID of a volume of subsystem %s, but belongs to subsystem %s: it is another disk; disconnect it with nvme disconnect", k.dev(name), d.NQN, nvmeof.Printable(of))
			}
			if ready(k.dev(name)) {
				return k.dev(name), nil
			}
		}
		if first {
			k.rescan(string(d.NQN))
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("namespace %v of %s does not appear: %w; check that it is published to host %s, and look at dmesg", d.UUID, d.NQN, ctx.Err(), k.Host)
		case <-time.After(lookAgain):
		}
	}
}

// ready reports whether the node of a device exists.
func ready(device string) bool {
	_, err := os.Stat(device)
	return err == nil
}

// connect connects to a subsystem by all paths that are missing.
func (k *Kernel) connect(ctx context.Context, d Disk) error {
	done, err := k.turns.take(ctx, string(d.NQN))
	if err != nil {
		return err
	}
	defer done()
	have, err := k.controllers(string(d.NQN))
	if err != nil {
		return err
	}
	var errs []error
	for _, text := range d.Addresses {
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			return fmt.Errorf("address of a target: %w", err)
		}
		if slices.ContainsFunc(have, func(c controller) bool { return c.at(a) }) {
			continue
		}
		if err := k.ask(d, a); err != nil {
			errs = append(errs, fmt.Errorf("connecting to %s at %s: %w%s", d.NQN, a, err, k.reason(err)))
		}
	}
	if len(errs) < len(d.Addresses) {
		return nil // at least one succeeded
	}
	return errors.Join(errs...)
}

// ask asks the kernel to connect. Values must not contain further options.
func (k *Kernel) ask(d Disk, a netip.AddrPort) error {
	for _, text := range []string{string(d.NQN), a.Addr().String(), string(k.Host)} {
		if strings.ContainsAny(text, ", \n") {
			return fmt.Errorf("the kernel does not accept a comma or space in %s", nvmeof.Printable(text))
		}
	}
	options := fmt.Sprintf("nqn=%s,transport=rdma,traddr=%s,trsvcid=%d,hostnqn=%s,hostid=%s,ctrl_loss_tmo=%d", d.NQN, a.Addr(), a.Port(), k.Host, k.HostID, cmp.Or(k.Loss, defaultLoss))
	for _, secret := range []struct{ name, value string }{{"dhchap_secret", d.Key}, {"dhchap_ctrl_secret", d.ControllerKey}} {
		if strings.ContainsAny(secret.value, ", \n") {
			return fmt.Errorf("%s is not a key in the format of nvme gen-dhchap-key", secret.name)
		}
		if secret.value != "" {
			options += "," + secret.name + "=" + secret.value
		}
	}
	ask := k.Connect
	if ask == nil {
		ask = func(options string) error { return write(k.dev("nvme-fabrics"), os.O_RDWR, options) }
	}
	err := ask(options)
	if errors.Is(err, unix.EALREADY) {
		return nil // it was connected concurrently
	}
	return err
}

// reason says what may be the cause of an error of the kernel, which has one error for all reasons of a rejection.
func (k *Kernel) reason(err error) string {
	switch {
	case errors.Is(err, unix.EIO):
		return fmt.Sprintf(": the target refused this node; the reason is in the target's log and in dmesg. Each machine needs its own NQN and identifier in /etc/nvme: is another machine connected as %s, %v?", k.Host, k.HostID)
	case errors.Is(err, unix.EINVAL):
		return fmt.Sprintf(": dmesg names the invalid option. Is this machine already connected as %s with another identifier than %v, or with that identifier and another NQN?", k.Host, k.HostID)
	}
	return ""
}

// write writes to an existing file of the kernel.
func write(path string, how int, text string) error {
	f, err := os.OpenFile(path, how, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// rescan asks the kernel to look for namespaces, since it may have missed the event.
func (k *Kernel) rescan(nqn string) {
	have, _ := k.controllers(nqn) // the caller notices a failure
	for _, c := range have {
		_ = write(k.sys("class", "nvme", c.name, "rescan_controller"), os.O_WRONLY, "1")
	}
}

// Detach implements Fabric. If the volume was taken from the host, its device is gone already, and only the connection
// is left.
func (k *Kernel) Detach(ctx context.Context, u uuid.UUID) error {
	nqn, done, err := k.turns.takeOf(ctx, func() (string, error) { return k.subsystemOf(u) })
	if err != nil {
		return err
	}
	defer done()
	if nqn == "" {
		return nil
	}
	name, err := k.name(u)
	if err != nil {
		return err
	}
	if err := k.disconnect(nqn, name, u); err != nil {
		return err
	}
	return k.forgetVolume(u)
}

// subsystemOf returns the NQN of the subsystem of a volume's device, or else that in its note; "" if there is neither.
func (k *Kernel) subsystemOf(u uuid.UUID) (nqn string, err error) {
	if name, err := k.name(u); err != nil || name != "" {
		return attribute(k.sys("block", name, "device", "subsysnqn")), err
	}
	if nqn, err = os.Readlink(k.notePath(u, volumeNotes)); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return nqn, err
}

// disconnect ends the connections to a subsystem, unless a namespace other than name is in use or waited for, or a
// volume other than but is attached. Called with the lock of the subsystem held.
func (k *Kernel) disconnect(nqn, name string, but uuid.UUID) error {
	all, err := os.ReadDir(k.sys("block"))
	if err != nil || k.needed(nqn) {
		return err
	}
	if attached, err := k.subsystems(volumeNotes, but); err != nil || slices.Contains(attached, nqn) {
		return err
	}
	for _, e := range all {
		if e.Name() != name && head.MatchString(e.Name()) && attribute(k.sys("block", e.Name(), "device", "subsysnqn")) == nqn && k.used(nqn, e.Name()) {
			return nil
		}
	}
	have, err := k.controllers(nqn)
	for _, c := range have {
		gone := write(k.sys("class", "nvme", c.name, "delete_controller"), os.O_WRONLY, "1")
		if !errors.Is(gone, fs.ErrNotExist) && !errors.Is(gone, unix.ENODEV) {
			err = errors.Join(err, gone)
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(k.forget(subsystemNote(nqn), sharedNotes), k.forget(subsystemNote(nqn), subsystemNotes))
}

// ReadOnly implements Fabric.
func (k *Kernel) ReadOnly(device string) bool {
	return attribute(k.sys("block", filepath.Base(device), "ro")) == "1"
}

// Await implements Fabric.
func (k *Kernel) Await(ctx context.Context, device string, size int64) (int64, error) {
	wait := k.Wait
	if wait == 0 {
		wait = defaultWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	name := filepath.Base(device)
	for first := true; ; first = false {
		sectors, err := strconv.ParseInt(attribute(k.sys("block", name, "size")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("device %s no longer exists", device)
		}
		if sectors*sectorSize >= size {
			return sectors * sectorSize, nil
		}
		if first {
			k.rescan(attribute(k.sys("block", name, "device", "subsysnqn")))
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%s has %d bytes, want %d: %w", device, sectors*sectorSize, size, ctx.Err())
		case <-time.After(lookAgain):
		}
	}
}
