package file

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/internal/inuse"
)

// imageFor creates a file without holes, as large as a small file system needs.
func imageFor(t *testing.T) string {
	t.Helper()
	path := tempFile(t)
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// qemuHolds starts a QEMU program that has the image open until the test ends or the function is called.
func qemuHolds(t *testing.T, path string, options ...string) (release func()) {
	t.Helper()
	name, err := exec.LookPath("qemu-io")
	if err != nil {
		t.Skip("there is no qemu-io, of the package qemu-utils")
	}
	cmd := exec.Command(name, append(options, "-f", "raw", path)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	release = func() {
		in.Close()
		cmd.Wait()
	}
	t.Cleanup(release)
	if _, err := io.WriteString(in, "length\n"); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "4 MiB") {
			go io.Copy(io.Discard, out) // ends with the process
			return release
		}
	}
	t.Fatal("qemu-io does not open the image")
	return nil
}

// wantBusy requires that Open names the user of the file, and with Force opens it and adds a note.
func wantBusy(t *testing.T, path string, cfg Config, words ...string) {
	t.Helper()
	s, err := Open(path, cfg)
	var busy *inuse.Error
	if !errors.As(err, &busy) || busy.Path != path {
		t.Fatalf("Open(%+v): %v, %v", cfg, s, err)
	}
	for _, w := range append(words, path, "force") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("Open(%+v): %v: want %q in it", cfg, err, w)
		}
	}
	cfg.Force = true
	s, err = Open(path, cfg)
	if err != nil {
		t.Fatalf("by force: %v", err)
	}
	if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "with force") {
		t.Errorf("by force: notes %q", notes)
	}
	closeStore(t, s)
}

// A file that QEMU has open is refused, unless both only read.
func TestInUseByQEMU(t *testing.T) {
	path := imageFor(t)
	release := qemuHolds(t, path)
	wantBusy(t, path, Config{}, "qemu-io", "in use by process")
	wantBusy(t, path, Config{ReadOnly: true}, "qemu-io")
	release()
	closeStore(t, openStore(t, path, Config{}))

	release = qemuHolds(t, path, "-r")
	closeStore(t, openStore(t, path, Config{ReadOnly: true}))
	release()
}

// QEMU refuses a file that is open here, and accepts it afterwards.
func TestLockedForQEMU(t *testing.T) {
	name, err := exec.LookPath("qemu-io")
	if err != nil {
		t.Skip("there is no qemu-io, of the package qemu-utils")
	}
	path := imageFor(t)
	use := func(command string, options ...string) string {
		out, _ := exec.Command(name, append(options, "-f", "raw", "-c", command, path)...).CombinedOutput()
		return string(out)
	}
	s := openStore(t, path, Config{})
	for _, command := range []string{"write 0 4096", "read 0 4096"} {
		if out := use(command); !strings.Contains(out, "lock") {
			t.Errorf("%s of what is served: %s", command, out)
		}
	}
	closeStore(t, s)
	if out := use("write 0 4096"); !strings.Contains(out, "wrote 4096") {
		t.Errorf("afterwards: %s", out)
	}
	s = openStore(t, path, Config{ReadOnly: true})
	if out := use("write 0 4096"); !strings.Contains(out, "lock") {
		t.Errorf("write of what is served for reading: %s", out)
	}
	if out := use("read 0 4096", "-r"); !strings.Contains(out, "read 4096") {
		t.Errorf("read of what is served for reading: %s", out)
	}
	closeStore(t, s)
}

// attachLoop attaches a loop device to a file, as root.
func attachLoop(t *testing.T, path string, options ...string) (device string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("loop devices need root")
	}
	out, err := exec.Command("losetup", append(options, "--find", "--show", path)...).Output()
	if err != nil {
		t.Skipf("losetup: %v", err)
	}
	device = strings.TrimSpace(string(out))
	t.Cleanup(func() { exec.Command("losetup", "-d", device).Run() })
	return device
}

func TestInUseByLoop(t *testing.T) {
	path := imageFor(t)
	device := attachLoop(t, path)
	wantBusy(t, path, Config{}, "attached to "+device, "run: losetup -d "+device)
	wantBusy(t, path, Config{ReadOnly: true}, "attached to "+device)

	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Skip("there is no mkfs.ext4")
	}
	if out, err := exec.Command(mkfs, "-q", device).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	at := t.TempDir()
	if err := unix.Mount(device, at, "ext4", 0, ""); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	defer unix.Unmount(at, 0)
	wantBusy(t, path, Config{}, "mounted on "+at, fmt.Sprintf("run: umount %s && losetup -d %s", at, device))
	// The same file under another name.
	if err := os.Link(path, path+".link"); err != nil {
		t.Fatal(err)
	}
	wantBusy(t, path+".link", Config{}, "mounted on "+at)
}

// A reader may share the file with a read-only loop device.
func TestReadOnlyBesideLoop(t *testing.T) {
	path := imageFor(t)
	device := attachLoop(t, path, "--read-only")
	wantBusy(t, path, Config{}, "attached to "+device)
	closeStore(t, openStore(t, path, Config{ReadOnly: true}))
}

func TestInUseAsSwap(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("swap needs root")
	}
	path := imageFor(t)
	if out, err := exec.Command("mkswap", path).CombinedOutput(); err != nil {
		t.Skipf("mkswap: %v\n%s", err, out)
	}
	if out, err := exec.Command("swapon", path).CombinedOutput(); err != nil {
		t.Skipf("swapon: %v\n%s", err, out)
	}
	defer exec.Command("swapoff", path).Run()
	s, err := Open(path, Config{})
	if err == nil || !strings.Contains(err.Error(), "swap space") || !strings.Contains(err.Error(), "swapoff "+path) {
		t.Errorf("Open of swap space: %v, %v", s, err)
	}
}

// The image file of a virtual machine is not a raw disk.
func TestFormatIsNoted(t *testing.T) {
	path := tempFile(t)
	head := append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 1<<20-8)...)
	if err := os.WriteFile(path, head, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, path, Config{})
	defer closeStore(t, s)
	if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "qcow2") || !strings.Contains(notes, "qemu-img convert") {
		t.Errorf("notes %q", notes)
	}
}
