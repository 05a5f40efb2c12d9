package fabric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// asProgram makes the test's executable one of the two programs, with that directory as the root of the machine.
const asProgram = "NVMEOF_CSI_TEST_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(asProgram); root != "" {
		if err := beProgram(root, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// beProgram acts as nvmeof attach, which serves at its socket until a signal, or as nbd-client, which creates in the
// machine's files what the kernel shows of a device.
func beProgram(root string, args []string) error {
	entry := func(path, text string) error {
		path = filepath.Join(root, path)
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	line := func() error {
		return entry(fmt.Sprintf("proc/%d/cmdline", os.Getpid()), strings.Join(args, "\x00"))
	}
	switch args[0] {
	case "attach":
		if slices.Contains(args, "refused") {
			return errors.New("the target refuses")
		}
		if slices.Contains(args, away) {
			time.Sleep(time.Hour) // it is killed before
		}
		l, err := net.Listen("unix", args[len(args)-1])
		if err != nil {
			return err
		}
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		if err := line(); err != nil {
			return err
		}
		<-signals
		return l.Close()
	case "-d":
		return os.Remove(filepath.Join(root, "sys/block", filepath.Base(args[1]), "pid"))
	}
	name := filepath.Base(args[len(args)-1])
	return errors.Join(line(), entry("sys/block/"+name+"/size", "8"), entry("sys/block/"+name+"/pid", fmt.Sprint(os.Getpid())))
}

// newAttached returns an Attached for a machine with two devices.
func newAttached(t *testing.T) *Attached {
	t.Helper()
	root, err := os.MkdirTemp("", "csi") // short: it has sockets
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asProgram, root)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise a second for each process
	a := &Attached{Host: hostNQN, HostID: first, Dir: filepath.Join(root, "run"), Root: root, Wait: 30 * time.Second, Program: self, Client: self}
	t.Cleanup(func() {
		_ = a.end(t.Context(), a.socket(nqn)) // if the test fails
		os.RemoveAll(root)
	})
	for _, name := range []string{"nbd0", "nbd1", "sda"} {
		if err := os.MkdirAll(filepath.Join(root, "sys/block", name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "proc/1"), 0o700); err != nil {
		t.Fatal(err)
	}
	return a
}

func attachedDisk(u uuid.UUID) Disk {
	return Disk{UUID: u, NQN: nqn, NSID: 1, Addresses: []string{"192.0.2.1:4420", "192.0.2.2:4421", "192.0.2.3:4420"}}
}

// TestAttached checks that the volumes of a subsystem share one process, which ends with the last of them, and that
// each has a device of its own, which another driver finds.
func TestAttached(t *testing.T) {
	a := newAttached(t)
	var devices []string
	for _, u := range []uuid.UUID{first, second, first} {
		device, err := a.Attach(t.Context(), attachedDisk(u))
		if err != nil {
			t.Fatal(err)
		}
		devices = append(devices, filepath.Base(device))
	}
	if !slices.Equal(devices, []string{"nbd0", "nbd1", "nbd0"}) {
		t.Errorf("devices %q", devices)
	}
	again := &Attached{Dir: a.Dir, Root: a.Root, Program: a.Program, Client: a.Client}
	device, err := again.Find(second)
	if err != nil || filepath.Base(device) != "nbd1" {
		t.Errorf("another driver finds %q, %v", device, err)
	}
	if err := errors.Join(os.MkdirAll(a.at("dev"), 0o700), os.WriteFile(device, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if h, err := again.Hold(second); err != nil || h.Path != device || h.Close() != nil {
		t.Errorf("it has %v, %v", h, err)
	}
	for i, u := range []uuid.UUID{first, second} { // both have the identifier 1 in these tests
		taken := a.arguments(attribute(a.at("sys/block", devices[i], "pid")))
		if k := slices.Index(taken, "-N"); k < 0 || taken[k+1] != u.String() {
			t.Errorf("volume %v is taken by %q", u, taken)
		}
	}
	if err := os.WriteFile(a.at("sys/block/nbd1/ro"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !a.ReadOnly(device) || a.ReadOnly("/dev/nbd0") {
		t.Errorf("to be read alone is %s: %v, and nbd0: %v", device, a.ReadOnly(device), a.ReadOnly("/dev/nbd0"))
	}
	if n, err := a.Await(t.Context(), device, 4096); n != 4096 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := a.Await(t.Context(), device, 4097); !errors.Is(err, ErrOffline) {
		t.Errorf("more than it has: %v", err)
	}
	if _, err := a.Await(t.Context(), "/dev/nbd7", 0); err == nil {
		t.Error("what is gone has a size")
	}
	for i, u := range []uuid.UUID{first, first, second, second} {
		if err := again.Detach(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		if want := i < 2; reached(a.socket(nqn)) != want {
			t.Errorf("after %d the process serves: %v", i, !want)
		}
	}
	if device, err := a.Find(second); err != nil || device != "" {
		t.Errorf("there is yet %q, %v", device, err)
	}
}

// TestNotAttached checks the errors of failed attachments.
func TestNotAttached(t *testing.T) {
	a := newAttached(t)
	d := attachedDisk(first)
	d.Key = "DHHC-1:00:a:"
	if _, err := a.Attach(t.Context(), d); err == nil || !strings.Contains(err.Error(), "keys") {
		t.Errorf("with a key: %v", err)
	}
	d.Key, d.Addresses = "", []string{"host"}
	if _, err := a.Attach(t.Context(), d); err == nil {
		t.Error("no address is one")
	}
	d = attachedDisk(first)
	d.NQN = "refused"
	if _, err := a.Attach(t.Context(), d); err == nil || !strings.Contains(err.Error(), "the target refuses") {
		t.Errorf("of a target that refuses: %v", err)
	}
	if _, err := a.Attach(t.Context(), attachedDisk(second)); err != nil { // so that the process exists
		t.Fatal(err)
	}
	d = attachedDisk(first)
	a.Client, a.Wait = "/nowhere/nbd-client", 50*time.Millisecond
	if _, err := a.Attach(t.Context(), d); err == nil || !strings.Contains(err.Error(), "nbd-client") {
		t.Errorf("without nbd-client: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(a.Root, "sys/block/nbd1")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Attach(t.Context(), d); err == nil || !strings.Contains(err.Error(), "modprobe nbd") {
		t.Errorf("without devices: %v", err)
	}
	a.Client, a.Wait = a.Program, 30*time.Second
	for _, u := range []uuid.UUID{first, second} {
		if err := a.Detach(t.Context(), u); err != nil {
			t.Error(err)
		}
	}
	a.Program = "/nowhere/nvmeof"
	if _, err := a.Attach(t.Context(), d); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the program: %v", err)
	}
}

// away is the NQN of a subsystem that does not answer.
const away = "nqn.2026-11.org.example:away"

// TestOthersAttach checks that volumes of other subsystems can be attached and detached while a volume is attached
// whose target is away, and that calls about the subsystem itself end with their contexts.
func TestOthersAttach(t *testing.T) {
	a := newAttached(t)
	x := newTree(t)
	x.Wait, x.waiting = time.Minute, map[string]int{}
	asked, answer := make(chan struct{}), make(chan struct{})
	x.Connect = func(options string) error {
		if strings.Contains(options, away) {
			close(asked)
			<-answer
		}
		return nil
	}
	x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
	x.namespace("nvme0n1", first, "8")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	begun := func() bool { _, err := os.Lstat(a.link(second)); return err == nil }
	for name, test := range map[string]struct {
		fabric interface {
			Attach(context.Context, Disk) (string, error)
			Detach(context.Context, uuid.UUID) error
		}
		begun func()
	}{
		"kernel": {x.Kernel, func() { <-asked }},
		"attached": {a, func() {
			for ; !begun(); time.Sleep(time.Millisecond) {
			}
		}},
	} {
		go func() { // ends when the context does, or the response arrives
			d := attachedDisk(second)
			d.NQN, d.Addresses = away, d.Addresses[:1]
			_, err := test.fabric.Attach(ctx, d)
			ended <- err
		}()
		test.begun()
		if _, err := test.fabric.Attach(t.Context(), attachedDisk(first)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := test.fabric.Detach(t.Context(), first); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		late, stop := context.WithTimeout(t.Context(), time.Millisecond)
		if err := test.fabric.Detach(late, second); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "in progress") {
			t.Errorf("%s: of the subsystem that is away: %v", name, err)
		}
		stop()
	}
	cancel()
	close(answer)
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("it was attached")
		}
	}
}

// TestAttachedLeft checks that whatever a driver leaves when it is killed between any two steps is ended by Detach or
// the start of the next driver, and that processes of others stay.
func TestAttachedLeft(t *testing.T) {
	a := newAttached(t)
	again := &Attached{Dir: a.Dir, Root: a.Root, Program: a.Program, Client: a.Client}
	other := &Attached{Dir: filepath.Join(a.Root, "other"), Root: a.Root, Program: a.Program, Wait: a.Wait}
	for _, x := range []*Attached{a, other} {
		if err := os.MkdirAll(x.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := x.serve(t.Context(), attachedDisk(first)); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = other.end(t.Context(), other.socket(nqn)) }()
	if err := again.Tidy(t.Context()); err != nil || reached(a.socket(nqn)) || !reached(other.socket(nqn)) {
		t.Errorf("%v; a process without a volume serves: %v; that of another folder: %v", err, reached(a.socket(nqn)), reached(other.socket(nqn)))
	}
	if err := errors.Join(a.serve(t.Context(), attachedDisk(first)), os.Symlink(filepath.Base(a.socket(nqn)), a.link(first)), again.Tidy(t.Context())); err != nil || !reached(a.socket(nqn)) {
		t.Errorf("%v; the process of a volume serves: %v", err, reached(a.socket(nqn)))
	}
	if err := again.Detach(t.Context(), first); err != nil || reached(a.socket(nqn)) {
		t.Errorf("%v; the process of a volume that is detached serves: %v", err, reached(a.socket(nqn)))
	}
	a.Client, a.Wait = "/nowhere/nbd-client", 200*time.Millisecond
	if _, err := a.Attach(t.Context(), attachedDisk(first)); err == nil || reached(a.socket(nqn)) {
		t.Errorf("%v; the process of a volume that was not attached serves: %v", err, reached(a.socket(nqn)))
	}
}
