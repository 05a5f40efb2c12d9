package mounts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// loop makes a loop device of a file, which needs root.
func loop(t *testing.T, size int64) (device string, grow func(size int64)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	out, err := exec.Command("losetup", "--find", "--show", path).CombinedOutput()
	if err != nil {
		t.Skipf("there are no loop devices here: %s", out)
	}
	device = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return device, func(size int64) {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("losetup", "--set-capacity", device).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// mayGrow reports whether the process can enlarge ext4, which needs CAP_SYS_RESOURCE.
func mayGrow(t *testing.T) bool {
	t.Helper()
	h, d := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capget(&h, &d[0]); err != nil {
		t.Fatal(err)
	}
	return d[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// TestFileSystems checks that a file system is created once, mounted, bind mounted, enlarged and unmounted, and that
// each step can be repeated.
func TestFileSystems(t *testing.T) {
	for fs, size := range map[string]int64{"ext4": 16 << 20, "xfs": 304 << 20} {
		t.Run(fs, func(t *testing.T) {
			if _, err := exec.LookPath("mkfs." + fs); err != nil {
				t.Skipf("%v: apt install e2fsprogs xfsprogs", err)
			}
			device, grow := loop(t, size)
			m, dir, ctx := New(), t.TempDir(), t.Context()
			staged, shown := filepath.Join(dir, "staged"), filepath.Join(dir, "pod", "mount")
			check := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			if err := m.Format(ctx, device, staged, fs, nil, true); err == nil {
				t.Error("a file system was made to be read only")
			}
			check("format", m.Format(ctx, device, staged, fs, []string{"noatime"}, false))
			t.Cleanup(func() { _ = m.Unmount(ctx, staged, false) }) // if the test fails
			if same, err := m.Holds(staged, device); err != nil || !same {
				t.Errorf("%s is of %s: %v, %v", staged, device, same, err)
			}
			if same, err := m.Holds(staged, "/dev/null"); err != nil || same {
				t.Errorf("%s is of another device: %v, %v", staged, same, err)
			}
			check("write", os.WriteFile(filepath.Join(staged, "file"), []byte("data"), 0o600))
			check("bind", m.Bind(ctx, staged, shown, false, true))
			t.Cleanup(func() { _ = m.Unmount(ctx, shown, true) })
			if err := os.WriteFile(filepath.Join(shown, "file"), nil, 0o600); err == nil {
				t.Error("what is shown to be read can be written")
			}
			if there, at, err := m.Shown(staged, filepath.Join(dir, "other")); err != nil || there || !slices.Equal(at, []string{shown}) {
				t.Errorf("shown there %v, and at %q, %v", there, at, err)
			}
			before, err := m.Usage(shown)
			check("usage", err)
			grow(2 * size)
			if fs == "xfs" || mayGrow(t) {
				check("grow", m.Grow(ctx, device, staged))
				check("grow again", m.Grow(ctx, device, staged))
				if after, err := m.Usage(shown); err != nil || after.Bytes <= before.Bytes || after.BytesFree > after.Bytes {
					t.Errorf("it has %+v, and had %+v: %v", after, before, err)
				}
			}
			for range 2 {
				check("unpublish", m.Unmount(ctx, shown, true))
				check("unstage", m.Unmount(ctx, staged, false))
			}
			check("mount again", m.Format(ctx, device, staged, fs, nil, false))
			if got, err := os.ReadFile(filepath.Join(staged, "file")); err != nil || string(got) != "data" {
				t.Errorf("the file has %q, %v", got, err)
			}
			check("unstage", m.Unmount(ctx, staged, false))
		})
	}
}

// TestDevices checks that a device is bind mounted as a file, which is removed afterwards.
func TestDevices(t *testing.T) {
	device, _ := loop(t, 1<<20)
	m, ctx := New(), t.Context()
	at := filepath.Join(t.TempDir(), "pod", "device")
	if there, err := m.Mounted(at); err != nil || there {
		t.Errorf("mounted %v, %v", there, err)
	}
	if err := m.Bind(ctx, device, at, true, false); err != nil {
		t.Fatal(err)
	}
	if there, err := m.Mounted(at); err != nil || !there {
		t.Errorf("mounted %v, %v", there, err)
	}
	if there, elsewhere, err := m.Shown(device, at); err != nil || !there || len(elsewhere) > 0 {
		t.Errorf("shown there %v, and at %q, %v", there, elsewhere, err)
	}
	if places, err := m.Elsewhere(device, filepath.Dir(at)); err != nil || !slices.Equal(places, []string{at}) {
		t.Errorf("it is shown at %q, %v", places, err)
	}
	if err := readable(at); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := m.Unmount(ctx, at, true); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(at); err == nil {
		t.Error("it is there yet")
	}
}

// TestLinks checks that mounts are found, and can be protected, by paths that contain symbolic links, as
// /var/lib/kubelet on some machines.
func TestLinks(t *testing.T) {
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skipf("%v: apt install e2fsprogs", err)
	}
	device, _ := loop(t, 16<<20)
	m, ctx, link := New(), t.Context(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	staged, shown := filepath.Join(link, "staged"), filepath.Join(link, "shown")
	err := m.Format(ctx, device, staged, "ext4", nil, false)
	if err == nil {
		err = m.Bind(ctx, staged, shown, false, false)
	}
	if err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := m.Protect(ctx, shown); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(shown, "file"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("written to what is shown to be read: %v", err)
	}
	if err := os.WriteFile(filepath.Join(staged, "file"), nil, 0o600); err != nil {
		t.Errorf("what is shown elsewhere to be read: %v", err)
	}
	if same, err := m.Holds(staged, device); err != nil || !same {
		t.Errorf("%s is of %s: %v, %v", staged, device, same, err)
	}
	if there, elsewhere, err := m.Shown(staged, shown); err != nil || !there || len(elsewhere) > 0 {
		t.Errorf("shown there %v, and at %q, %v", there, elsewhere, err)
	}
	for but, want := range map[string][]string{staged: {resolved(shown)}, shown: {resolved(staged)}} {
		if at, err := m.Elsewhere(device, but); err != nil || !slices.Equal(at, want) {
			t.Errorf("but for %s it is mounted at %q, %v", but, at, err)
		}
	}
	if err := errors.Join(m.Unmount(ctx, shown, true), m.Unmount(ctx, staged, false)); err != nil {
		t.Error(err)
	}
}

// TestUnreadable checks that a device is not considered empty if a part of it that may contain a signature, such as
// its beginning or end, cannot be read, and that its file system is not overwritten.
func TestUnreadable(t *testing.T) {
	const size = 64 << 20
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skipf("%v: apt install e2fsprogs", err)
	}
	device, grow := loop(t, size)
	backing := strings.TrimSpace(command(t, "losetup", "--noheadings", "--output", "BACK-FILE", device))
	m, ctx, at := New(), t.Context(), filepath.Join(t.TempDir(), "staged")
	command(t, "mkfs.ext4", "-q", device)
	before := command(t, "blkid", "-p", "-s", "UUID", "-o", "value", device)
	if err := os.Truncate(backing, size-1<<20); err != nil { // the device keeps its size
		t.Fatal(err)
	}
	command(t, "blockdev", "--flushbufs", device)
	if err := m.Format(ctx, device, at, "ext4", nil, false); err == nil {
		t.Error("a device whose end cannot be read has been mounted")
		if err := m.Unmount(ctx, at, false); err != nil {
			t.Error(err)
		}
	}
	grow(size)
	if err := m.Format(ctx, device, at, "ext4", nil, false); err != nil {
		t.Fatal(err)
	}
	if err := m.Unmount(ctx, at, false); err != nil {
		t.Error(err)
	}
	if after := command(t, "blkid", "-p", "-s", "UUID", "-o", "value", device); after != before {
		t.Errorf("the file system is %s, and was %s", after, before)
	}
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}

func TestMountErrors(t *testing.T) {
	m, ctx, dir := New(), t.Context(), t.TempDir()
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, make([]byte, 512), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{short, filepath.Join(dir, "none")} {
		if err := m.Format(ctx, device, filepath.Join(dir, "at"), "ext4", nil, false); err == nil {
			t.Errorf("%s is mounted", device)
		}
	}
	if err := m.Bind(ctx, filepath.Join(dir, "none"), filepath.Join(dir, "at"), true, false); err == nil {
		t.Error("what is not there is shown")
	}
	if _, err := m.Usage(filepath.Join(dir, "none")); err == nil {
		t.Error("what is not there is used")
	}
	if there, elsewhere, err := m.Shown(filepath.Join(dir, "none"), dir); err != nil || there || len(elsewhere) > 0 {
		t.Errorf("what is not there is shown there %v, and at %q, %v", there, elsewhere, err)
	}
	if _, err := m.Holds(dir, filepath.Join(dir, "none")); err == nil {
		t.Error("what is not there is mounted")
	}
	if same, err := m.Holds(filepath.Join(dir, "none"), short); err != nil || same {
		t.Errorf("where nothing is mounted there is a device: %v", err)
	}
	if _, err := m.Elsewhere(filepath.Join(dir, "none"), dir); err == nil {
		t.Error("what is not there may be mounted somewhere")
	}
	if err := m.Protect(ctx, dir); err == nil {
		t.Error("where nothing is mounted there is something to be protected")
	}
	if err := m.Grow(ctx, short, dir); err == nil {
		t.Error("no device has a file system that grew")
	}
	if err := m.Unmount(ctx, filepath.Join(dir, "none"), false); err != nil {
		t.Error(err)
	}
}
