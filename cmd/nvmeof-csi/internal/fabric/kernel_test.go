package fabric

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

const (
	hostNQN = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001"
	nqn     = "nqn.2026-11.org.example:csi"
)

var first, second = uuid.MustParse("11111111-2222-4333-8444-555555555551"), uuid.MustParse("11111111-2222-4333-8444-555555555552")

// A tree is a sysfs with a fake kernel, which adds to it what is requested.
type tree struct {
	*Kernel
	t     *testing.T
	asked []string
	fail  error
}

func newTree(t *testing.T) *tree {
	x := &tree{t: t}
	dir := t.TempDir()
	x.Kernel = &Kernel{Host: hostNQN, HostID: first, Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"), Dir: filepath.Join(dir, "run"), Wait: time.Millisecond, Loss: -1,
		Connect: func(options string) error {
			x.asked = append(x.asked, options)
			return x.fail
		}}
	x.put("sys/block/sda/size", "1")
	x.put("sys/class/nvme/nvme9/subsysnqn", "other")
	return x
}

func (x *tree) put(path, text string) {
	x.t.Helper()
	path = filepath.Join(filepath.Dir(x.Sys), path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// controller adds a controller, and namespace a namespace.
func (x *tree) controller(name, address string) {
	x.put("sys/class/nvme/"+name+"/subsysnqn", nqn)
	x.put("sys/class/nvme/"+name+"/hostnqn", hostNQN)
	x.put("sys/class/nvme/"+name+"/address", address)
	x.put("sys/class/nvme/"+name+"/state", "live")
	x.put("sys/class/nvme/"+name+"/rescan_controller", "")
	x.put("sys/class/nvme/"+name+"/delete_controller", "")
}

func (x *tree) namespace(name string, u uuid.UUID, sectors string) {
	x.put("sys/block/"+name+"/uuid", u.String())
	x.put("sys/block/"+name+"/size", sectors)
	x.put("sys/block/"+name+"/device/subsysnqn", nqn)
	x.put("dev/"+name, "")
}

func disk(u uuid.UUID) Disk {
	return Disk{UUID: u, NQN: nqn, NSID: 1, Addresses: []string{"192.0.2.1:4420", "[2001:db8::1]:4421"}, Key: "DHHC-1:00:a:", ControllerKey: "DHHC-1:00:b:"}
}

// TestAttach checks that the kernel is asked only for the paths that are missing.
func TestAttach(t *testing.T) {
	x := newTree(t)
	if _, err := x.Attach(t.Context(), disk(first)); !errors.Is(err, context.DeadlineExceeded) || len(x.asked) != 2 {
		t.Errorf("%v, asked %q", err, x.asked)
	}
	want := "nqn=" + nqn + ",transport=rdma,traddr=192.0.2.1,trsvcid=4420,hostnqn=" + hostNQN + ",hostid=" + first.String() + ",ctrl_loss_tmo=-1" +
		",dhchap_secret=DHHC-1:00:a:,dhchap_ctrl_secret=DHHC-1:00:b:"
	if x.asked[0] != want {
		t.Errorf("asked for\n%s\nwant\n%s", x.asked[0], want)
	}
	x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420,src_addr=192.0.2.2")
	x.namespace("nvme0c0n1", first, "8") // a path of it
	x.namespace("nvme0n1", first, "8")
	x.asked = nil
	if device, err := x.Attach(t.Context(), disk(first)); err != nil || device != filepath.Join(x.Dev, "nvme0n1") || len(x.asked) != 1 {
		t.Errorf("%q, %v, asked %q", device, err, x.asked)
	}
	if attribute(x.Sys, "class/nvme/nvme0/rescan_controller") != "" {
		t.Error("the kernel looked for what was there")
	}
	_, _ = x.Attach(t.Context(), disk(second))
	if attribute(x.Sys, "class/nvme/nvme0/rescan_controller") != "1" {
		t.Error("the kernel was not asked to look again")
	}
	x.put("sys/class/nvme/nvme0/state", "deleting")
	x.asked, x.fail = nil, unix.EALREADY
	if _, err := x.Attach(t.Context(), disk(first)); err != nil || len(x.asked) != 2 {
		t.Errorf("%v, asked %q", err, x.asked)
	}
	x.fail = unix.ECONNREFUSED
	if _, err := x.Attach(t.Context(), disk(first)); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("by no path: %v", err)
	}
	for fail, want := range map[error]string{unix.EIO: "is another machine connected as " + hostNQN, unix.EINVAL: "with another identifier than " + first.String()} {
		x.fail = fail
		if _, err := x.Attach(t.Context(), disk(first)); !errors.Is(err, fail) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	wrong := disk(first)
	wrong.Key = "DHHC-1:00:a:,nqn=other"
	if _, err := x.Attach(t.Context(), wrong); err == nil || slices.ContainsFunc(x.asked, func(s string) bool { return strings.Contains(s, "nqn=other") }) {
		t.Errorf("an option in a key: %v, asked %q", err, x.asked)
	}
	for _, other := range []Disk{{UUID: first, NQN: nqn + ",hostnqn=other", Addresses: []string{"192.0.2.3:4420"}}, {UUID: first, NQN: nqn, Addresses: []string{"[fe80::1%eth0,hostnqn=other]:4420"}}} {
		if _, err := x.Attach(t.Context(), other); err == nil || slices.ContainsFunc(x.asked, func(s string) bool { return strings.Contains(s, "hostnqn=other") }) {
			t.Errorf("an option in the name or the address of a target: %v, asked %q", err, x.asked)
		}
	}
	wrong.Addresses = []string{"host"}
	if _, err := x.Attach(t.Context(), wrong); err == nil {
		t.Error("no address is one")
	}
}

// TestAnotherDisk checks that a disk of another target with the UUID of a volume is not taken for the volume.
func TestAnotherDisk(t *testing.T) {
	x := newTree(t)
	x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
	x.namespace("nvme1n1", first, "8")
	x.put("sys/block/nvme1n1/device/subsysnqn", "nqn.2026-11.org.example:other")
	if device, err := x.Attach(t.Context(), disk(first)); err == nil || !strings.Contains(err.Error(), "it is another disk") {
		t.Errorf("%q, %v", device, err)
	}
}

// TestDetach checks that the connection ends with the last namespace of its subsystem.
func TestDetach(t *testing.T) {
	x := newTree(t)
	x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
	x.controller("nvme1", "traddr=192.0.2.2,trsvcid=4420")
	x.namespace("nvme0n1", first, "8")
	x.namespace("nvme0n2", second, "8")
	deleted := func() bool {
		return attribute(x.Sys, "class/nvme/nvme0/delete_controller") == "1" && attribute(x.Sys, "class/nvme/nvme1/delete_controller") == "1"
	}
	if err := x.Detach(t.Context(), first); err != nil || deleted() {
		t.Errorf("%v; with another namespace the connection ends: %v", err, deleted())
	}
	if err := os.RemoveAll(filepath.Join(x.Sys, "block", "nvme0n1")); err != nil {
		t.Fatal(err)
	}
	if err := x.Detach(t.Context(), first); err != nil || deleted() {
		t.Errorf("one that is gone: %v", err)
	}
	if err := x.Detach(t.Context(), second); err != nil || !deleted() || attribute(x.Sys, "class/nvme/nvme9/delete_controller") != "" {
		t.Errorf("the last: %v, ended %v", err, deleted())
	}
}

// started returns the machine with a restarted driver.
func (x *tree) started() *tree {
	again := *x
	again.Kernel = &Kernel{Host: x.Host, HostID: x.HostID, Sys: x.Sys, Dev: x.Dev, Dir: x.Dir, Wait: x.Wait, Loss: x.Loss, Connect: x.Connect}
	return &again
}

// withdraw removes a namespace, as the kernel does.
func (x *tree) withdraw(name string) {
	x.t.Helper()
	if err := os.RemoveAll(filepath.Join(x.Sys, "block", name)); err != nil {
		x.t.Fatal(err)
	}
}

// wantEnded checks whether the connection has ended.
func (x *tree) wantEnded(want bool, when string) {
	x.t.Helper()
	if ended := attribute(x.Sys, "class/nvme/nvme0/delete_controller") == "1"; ended != want {
		x.t.Errorf("%s the connection has ended: %v", when, ended)
	}
	for _, other := range []string{"nvme8", "nvme9"} {
		if attribute(x.Sys, "class/nvme", other, "delete_controller") != "" {
			x.t.Errorf("%s that of somebody else has ended, %s", when, other)
		}
	}
}

// TestDetachWithdrawn checks that the connection ends with the last volume, even if its device is gone, and not
// before, also after a restart of the driver.
func TestDetachWithdrawn(t *testing.T) {
	for _, anew := range []bool{false, true} {
		x := newTree(t)
		x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
		for name, u := range map[string]uuid.UUID{"nvme0n1": first, "nvme0n2": second} {
			x.namespace(name, u, "8")
			if _, err := x.Attach(t.Context(), disk(u)); err != nil {
				t.Fatal(err)
			}
		}
		for i, u := range []uuid.UUID{first, second, second} {
			x.withdraw([]string{"nvme0n1", "nvme0n2", "nvme0n2"}[i])
			if anew {
				x = x.started()
				if err := x.Tidy(t.Context()); err != nil {
					t.Error(err)
				}
				x.wantEnded(i == 2, "when the driver is started anew")
			}
			if err := x.Detach(t.Context(), u); err != nil {
				t.Error(err)
			}
			x.wantEnded(u == second, "after "+u.String())
		}
		if left, err := os.ReadDir(x.Dir); err != nil || len(left) > 0 {
			t.Errorf("there are yet notes: %v, %v", left, err)
		}
	}
}

// TestTidy checks that connections that no volume uses are ended, and that connections of others are not, whatever
// namespaces they have.
func TestTidy(t *testing.T) {
	x := newTree(t)
	x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
	x.controller("nvme8", "traddr=192.0.2.1,trsvcid=4420")
	x.put("sys/class/nvme/nvme8/hostnqn", "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002")
	x.put("sys/class/nvme/nvme9/hostnqn", hostNQN)
	x.put("sys/class/nvme/nvme9/delete_controller", "")
	tidy := func(want bool, when string) {
		t.Helper()
		if err := x.Tidy(t.Context()); err != nil {
			t.Error(err)
		}
		x.wantEnded(want, when)
	}
	tidy(false, "before a volume was attached")
	for name, u := range map[string]uuid.UUID{"nvme0n1": first, "nvme0n2": second} {
		x.namespace(name, u, "8")
		if _, err := x.Attach(t.Context(), disk(u)); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range []uuid.UUID{first, second} { // both before one is withdrawn
		if err := x.Detach(t.Context(), u); err != nil {
			t.Error(err)
		}
	}
	tidy(false, "while devices are there")
	x.withdraw("nvme0n1")
	tidy(false, "while a device is there")
	x.withdraw("nvme0n2")
	x.begin(nqn)
	tidy(false, "while one is waited for")
	if err := x.end(t.Context(), disk(first), false, false); err != nil {
		t.Error(err)
	}
	x = x.started()
	tidy(true, "when the last device has gone")
	x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
	tidy(false, "when somebody else has connected since")
}

// TestLastUnstaged checks that the driver's connection ends with the last staged volume, even if some volumes were
// unstaged and not withdrawn yet; but not if another namespace is mounted.
func TestLastUnstaged(t *testing.T) {
	for _, taken := range []bool{false, true} {
		x := newTree(t)
		x.Connect = func(string) error {
			x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
			return nil
		}
		for name, u := range map[string]uuid.UUID{"nvme0n1": first, "nvme0n2": second} {
			x.namespace(name, u, "8")
			if _, err := x.Attach(t.Context(), disk(u)); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.Detach(t.Context(), first); err != nil {
			t.Error(err)
		}
		x.wantEnded(false, "with another volume")
		if taken {
			device := filepath.Join(x.Dev, "nvme0n1")
			if err := errors.Join(os.Remove(device), os.Symlink(loop(t), device)); err != nil {
				t.Fatal(err)
			}
			mounted, err := os.OpenFile(device, os.O_RDONLY|os.O_EXCL, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer mounted.Close()
		}
		x = x.started()
		if err := x.Detach(t.Context(), second); err != nil {
			t.Error(err)
		}
		x.wantEnded(!taken, "after the last")
	}
}

// loop makes a loop device, which needs root.
func loop(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", path).CombinedOutput()
	if err != nil {
		t.Skipf("there are no loop devices here: %s", out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return device
}

// TestNotNoted checks that a volume is not attached if the notes for the next driver cannot be written.
func TestNotNoted(t *testing.T) {
	x := newTree(t)
	x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
	x.namespace("nvme0n1", first, "8")
	x.put("run", "a file")
	if _, err := x.Attach(t.Context(), disk(first)); err == nil || len(x.asked) > 0 {
		t.Errorf("%v, asked %q", err, x.asked)
	}
	if err := x.Detach(t.Context(), first); err == nil {
		t.Error("detached, whatever other volumes there are")
	}
}

// TestHold checks that a device that has become another disk when it is open is not taken for the volume's.
func TestHold(t *testing.T) {
	x := newTree(t)
	if h, err := x.Hold(first); err != nil || h.Path != "" || h.Close() != nil {
		t.Errorf("without a device: %v, %v", h, err)
	}
	x.namespace("nvme0n1", first, "8")
	device := filepath.Join(x.Dev, "nvme0n1")
	h, err := x.Hold(first)
	if err != nil || h.Path != device || h.Close() != nil || h.Close() == nil {
		t.Errorf("%v, %v; it was not open until it was closed", h, err)
	}
	for _, now := range []string{"", filepath.Join(x.Dev, "nvme0n2")} {
		found := []string{device, now}
		h, err := hold(func(uuid.UUID) (path string, err error) {
			path, found = found[0], found[1:]
			return path, nil
		}, first)
		if !errors.Is(err, ErrGone) || h != nil {
			t.Errorf("where it is %q once it is open: %v, %v", now, h, err)
		}
	}
	if err := os.Remove(device); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Hold(first); !errors.Is(err, ErrGone) {
		t.Errorf("of a device that is about to come or go: %v", err)
	}
}

// TestConnectionsNeeded checks that a connection stays while a call waits for a namespace that the kernel has not
// found yet, and is ended if none appears.
func TestConnectionsNeeded(t *testing.T) {
	x := newTree(t)
	x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
	x.namespace("nvme0n1", first, "8")
	deleted := func() bool { return attribute(x.Sys, "class/nvme/nvme0/delete_controller") == "1" }
	x.begin(nqn)
	if err := x.Detach(t.Context(), first); err != nil || deleted() {
		t.Errorf("%v; it ended while it was needed: %v", err, deleted())
	}
	if err := errors.Join(x.end(t.Context(), disk(first), false, false), os.RemoveAll(filepath.Join(x.Sys, "block", "nvme0n1"))); err != nil || deleted() {
		t.Errorf("%v, ended %v", err, deleted())
	}
	if _, err := x.Attach(t.Context(), disk(second)); err == nil || !deleted() {
		t.Errorf("%v; a connection of nobody stays", err)
	}
}

func TestAwait(t *testing.T) {
	x := newTree(t)
	x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
	x.namespace("nvme0n1", first, "8")
	device, err := x.Find(first)
	if err != nil {
		t.Fatal(err)
	}
	if x.ReadOnly(device) {
		t.Error("it is to be read alone")
	}
	if x.put("sys/block/nvme0n1/ro", "1"); !x.ReadOnly(device) {
		t.Error("it is not to be read alone")
	}
	if n, err := x.Await(t.Context(), device, 4096); n != 4096 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := x.Await(t.Context(), device, 4097); !errors.Is(err, context.DeadlineExceeded) || attribute(x.Sys, "class/nvme/nvme0/rescan_controller") != "1" {
		t.Errorf("more than it has: %v", err)
	}
	if _, err := x.Await(t.Context(), filepath.Join(x.Dev, "nvme7n1"), 0); err == nil {
		t.Error("what is gone has a size")
	}
}

// TestWithoutNVMe checks the error of a kernel without NVMe.
func TestWithoutNVMe(t *testing.T) {
	x := newTree(t)
	if err := os.RemoveAll(filepath.Join(x.Sys, "class")); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Attach(t.Context(), disk(first)); err == nil || !strings.Contains(err.Error(), "modprobe") {
		t.Errorf("%v", err)
	}
	x.Connect = nil
	x.put("sys/class/nvme/nvme9/subsysnqn", "other")
	if _, err := x.Attach(t.Context(), disk(first)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without /dev/nvme-fabrics: %v", err)
	}
	if err := os.RemoveAll(x.Sys); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Find(first); err == nil {
		t.Error("without sysfs something is found")
	}
	if (&Kernel{}).sys("block") != "/sys/block" || (&Kernel{}).dev("nvme-fabrics") != "/dev/nvme-fabrics" {
		t.Error("the defaults are not those of Linux")
	}
}
