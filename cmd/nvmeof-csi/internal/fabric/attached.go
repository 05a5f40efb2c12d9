package fabric

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// An Attached implements the Fabric of package driver with nvmeof attach and nbd-client, for machines whose kernel
// does not support NVMe over RDMA. Each subsystem has a process, which outlives the driver unless the driver's
// container ends. Each volume has a symbolic link to the socket of its subsystem's process. The path of the link is in
// the command line of the nbd-client that made the volume's device; only this tells which device belongs to a volume.
// Zero fields take the defaults.
type Attached struct {
	Host   nvmeof.NQN    // required
	HostID uuid.UUID     // required
	Dir    string        // for sockets and links; default /run/nvmeof-csi
	Root   string        // parent of /sys, /proc and /dev; default /
	Wait   time.Duration // how long a program may take; default 30 s
	Loss   int           // as in [Kernel]

	// Program and Client are the names of the two programs; default nvmeof and nbd-client.
	Program, Client string

	turns   turns // by the name of a subsystem's socket: serializes connecting and disconnecting
	devices turns // with the key "": serializes taking a free device
}

// ErrOffline is returned because a device keeps its size until it is created again.
var ErrOffline = errors.New("a volume that is attached by NBD gets its new size when it is staged again")

func (a *Attached) dir() string { return cmp.Or(a.Dir, defaultDir) }

func (a *Attached) wait() time.Duration { return cmp.Or(a.Wait, defaultWait) }

func (a *Attached) at(parts ...string) string {
	return filepath.Join("/", a.Root, filepath.Join(parts...))
}

// socket returns the path of a subsystem's socket, and link that of a volume's link to it.
func (a *Attached) socket(nqn nvmeof.NQN) string {
	return filepath.Join(a.dir(), uuid.NewSHA1(uuid.Nil, []byte(nqn)).String()+".disk")
}
func (a *Attached) link(u uuid.UUID) string { return filepath.Join(a.dir(), u.String()+".sock") }

// arguments returns the arguments of a process; none if it does not exist.
func (a *Attached) arguments(pid string) []string {
	text, err := os.ReadFile(a.at("proc", pid, "cmdline"))
	if err != nil {
		return nil
	}
	var all []string
	for part := range bytes.SplitSeq(text, []byte{0}) {
		all = append(all, string(part))
	}
	return all
}

// Find implements Fabric.
func (a *Attached) Find(u uuid.UUID) (string, error) {
	all, err := filepath.Glob(a.at("sys/block/nbd*/pid"))
	if err != nil {
		return "", err
	}
	for _, path := range all {
		if slices.Contains(a.arguments(attribute(path)), a.link(u)) {
			return a.at("dev", filepath.Base(filepath.Dir(path))), nil
		}
	}
	return "", nil
}

// Attach implements Fabric. It creates the link before the process, so that Detach ends both even if the driver was
// killed in between.
func (a *Attached) Attach(ctx context.Context, d Disk) (device string, err error) {
	if d.Key != "" {
		return "", errors.New("the driver cannot pass DH-HMAC-CHAP keys to nvmeof attach: use the kernel's initiator for hosts that have a key")
	}
	link, socket := a.link(d.UUID), filepath.Base(a.socket(d.NQN))
	done, err := a.turns.take(ctx, socket)
	if err != nil {
		return "", err
	}
	defer done()
	if device, err := a.Find(d.UUID); err != nil || device != "" {
		return device, err
	}
	if to, _ := os.Readlink(link); to != socket {
		_ = os.Remove(link) // one that is left over
		if err := errors.Join(os.MkdirAll(a.dir(), onlyOwnersEnter), os.Symlink(socket, link)); err != nil {
			return "", err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, a.detach(context.WithoutCancel(ctx), d.UUID))
			}
		}()
	}
	ctx, cancel := context.WithTimeout(ctx, a.wait())
	defer cancel()
	if err := a.serve(ctx, d); err != nil {
		return "", err
	}
	return a.disk(ctx, link, d)
}

// disk makes a device of a volume whose subsystem has a process.
func (a *Attached) disk(ctx context.Context, link string, d Disk) (string, error) {
	for {
		err := error(nil)
		if device, _ := a.Find(d.UUID); device == "" {
			err = a.take(ctx, link, d.UUID)
		}
		device, found := a.Find(d.UUID)
		if size, _ := a.Await(ctx, device, 0); found != nil || size > 0 { // the device has its size a moment after it is taken
			return device, found
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("namespace %d of %s by NBD: %w", d.NSID, d.NQN, errors.Join(err, ctx.Err()))
		case <-time.After(lookAgain):
		}
	}
}

// serve starts the process of a subsystem, unless it runs.
func (a *Attached) serve(ctx context.Context, d Disk) error {
	socket := a.socket(d.NQN)
	if reached(socket) {
		return nil
	}
	first, err := netip.ParseAddrPort(d.Addresses[0])
	if err != nil {
		return fmt.Errorf("address of a target: %w", err)
	}
	var addresses []string
	for _, text := range d.Addresses {
		if p, err := netip.ParseAddrPort(text); err == nil && p.Port() == first.Port() {
			addresses = append(addresses, p.Addr().String())
		}
	}
	log, err := os.OpenFile(socket+".log", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(cmp.Or(a.Program, "nvmeof"), "attach", "-t", "rdma", "-a", strings.Join(addresses, ","), "-s", strconv.Itoa(int(first.Port())),
		"-n", string(d.NQN), "--hostnqn", string(a.Host), "--hostid", a.HostID.String(), "--ctrl-loss-tmo", strconv.Itoa(cmp.Or(a.Loss, defaultLoss)), "--socket", socket)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it is not to end with the driver
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the process
	for !reached(socket) {
		select {
		case err := <-ended:
			return fmt.Errorf("nvmeof attach ended: %w: %s", err, attribute(socket+".log"))
		case <-ctx.Done():
			_ = cmd.Process.Kill() // the next call starts it again
			return fmt.Errorf("nvmeof attach does not publish the volume: %w: %s", ctx.Err(), attribute(socket+".log"))
		case <-time.After(lookAgain):
		}
	}
	return nil
}

// reached reports whether a process listens at a socket.
func reached(socket string) bool {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// take connects the first free device to the export of a volume. It uses the export's name by UUID, since the NSID may
// be that of another volume by now.
func (a *Attached) take(ctx context.Context, link string, u uuid.UUID) error {
	done, err := a.devices.take(ctx, "")
	if err != nil {
		return err
	}
	defer done()
	err = errors.New("no NBD device is free: modprobe nbd, with nbds_max=N for more devices")
	for i := 0; ; i++ {
		name := "nbd" + strconv.Itoa(i)
		if _, missing := os.Stat(a.at("sys/block", name)); missing != nil {
			return err
		}
		if _, free := os.Stat(a.at("sys/block", name, "pid")); free == nil {
			continue
		}
		var out []byte
		out, err = exec.CommandContext(ctx, cmp.Or(a.Client, "nbd-client"), "-nonetlink", "-unix", link, "-N", u.String(), a.at("dev", name)).CombinedOutput()
		if err == nil {
			return nil
		}
		return fmt.Errorf("nbd-client: %w: %s", err, bytes.TrimSpace(out))
	}
}

// Detach implements Fabric.
func (a *Attached) Detach(ctx context.Context, u uuid.UUID) error {
	_, done, err := a.turns.takeOf(ctx, func() (string, error) {
		socket, err := os.Readlink(a.link(u))
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return socket, err
	})
	if err != nil {
		return err
	}
	defer done()
	return a.detach(ctx, u)
}

// detach is Detach with the lock of the volume's subsystem held. It removes the link last, so that a further call
// finds what is left.
func (a *Attached) detach(ctx context.Context, u uuid.UUID) error {
	device, err := a.Find(u)
	if err != nil {
		return err
	}
	if device != "" {
		if out, err := exec.CommandContext(ctx, cmp.Or(a.Client, "nbd-client"), "-d", device).CombinedOutput(); err != nil {
			return fmt.Errorf("nbd-client -d %s: %w: %s", device, err, bytes.TrimSpace(out))
		}
	}
	socket, err := os.Readlink(a.link(u))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	needed, failed := a.needed(u)
	if err = errors.Join(err, failed); err == nil && !slices.Contains(needed, socket) {
		err = a.end(ctx, filepath.Join(a.dir(), socket))
	}
	if err != nil {
		return err
	}
	return os.Remove(a.link(u))
}

// needed returns the names of the sockets to which links lead, without the link of one volume.
func (a *Attached) needed(but uuid.UUID) (sockets []string, err error) {
	links, err := filepath.Glob(filepath.Join(a.dir(), "*.sock"))
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && l != a.link(but) {
			sockets = append(sockets, to)
		}
	}
	return sockets, err
}

// processes returns the processes of nvmeof attach, by the socket at which each serves.
func (a *Attached) processes() (map[string][]int, error) {
	all, err := os.ReadDir(a.at("proc"))
	of := map[string][]int{}
	for _, e := range all {
		pid, failed := strconv.Atoi(e.Name())
		args := a.arguments(e.Name())
		if at := slices.Index(args, "--socket") + 1; failed == nil && slices.Contains(args, "attach") && at > 0 && at < len(args) {
			of[args[at]] = append(of[args[at]], pid)
		}
	}
	return of, err
}

// end ends the process that serves at a socket. The process flushes first.
func (a *Attached) end(ctx context.Context, socket string) error {
	all, err := a.processes()
	if err != nil {
		return err
	}
	for _, pid := range all[socket] {
		_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
	}
	ctx, cancel := context.WithTimeout(ctx, a.wait())
	defer cancel()
	for reached(socket) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("nvmeof attach, which serves %s, does not end: %w", socket, ctx.Err())
		case <-time.After(lookAgain):
		}
	}
	return nil
}

// Tidy implements Fabric: it ends processes whose socket is in the driver's directory and to which no link leads.
func (a *Attached) Tidy(ctx context.Context) error {
	all, err := a.processes()
	for socket := range all {
		if filepath.Dir(socket) == a.dir() {
			err = errors.Join(err, a.endUnneeded(ctx, socket))
		}
	}
	return err
}

func (a *Attached) endUnneeded(ctx context.Context, socket string) error {
	done, err := a.turns.take(ctx, filepath.Base(socket))
	if err != nil {
		return err
	}
	defer done()
	needed, err := a.needed(uuid.Nil)
	if err != nil || slices.Contains(needed, filepath.Base(socket)) {
		return err
	}
	return a.end(ctx, socket)
}

// ReadOnly implements Fabric.
func (a *Attached) ReadOnly(device string) bool {
	return attribute(a.at("sys/block", filepath.Base(device), "ro")) == "1"
}

// Await implements Fabric.
func (a *Attached) Await(_ context.Context, device string, size int64) (int64, error) {
	sectors, err := strconv.ParseInt(attribute(a.at("sys/block", filepath.Base(device), "size")), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("device %s no longer exists", device)
	}
	if sectors*sectorSize < size {
		return 0, fmt.Errorf("%s has %d bytes, want %d: %w", device, sectors*sectorSize, size, ErrOffline)
	}
	return sectors * sectorSize, nil
}
