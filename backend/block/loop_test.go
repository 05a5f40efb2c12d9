package block

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/file"
)

func TestLoopGeometry(t *testing.T) {
	for _, logical := range []int{512, 4096} {
		l := newLoop(t, testSize+512, uint32(logical), 0)
		s := openStore(t, l.path, Config{})
		info := s.Info()
		if info.BlockSize != logical || info.Size != (testSize+512)&^int64(logical-1) || info.Alignment != logical ||
			!info.Deallocate || info.AtomicUnit != 0 || info.Optimal < logical || info.ReadOnly {
			t.Errorf("logical blocks of %d bytes: %+v", logical, info)
		}
		if n, err := s.Allocated(); err != nil || n != info.Size {
			t.Errorf("%d bytes allocated, %v", n, err)
		}
		closeStore(t, s)
		if logical == 512 {
			s := openStore(t, l.path, Config{BlockSize: 4096})
			if info := s.Info(); info.BlockSize != 4096 || info.AtomicUnit != 512 || len(s.Notes()) != 1 {
				t.Errorf("blocks of 4096 bytes on sectors of 512: %+v, notes %q", info, s.Notes())
			}
			closeStore(t, s)
		} else if _, err := Open(l.path, Config{BlockSize: 512}); err == nil || !strings.Contains(err.Error(), "bs=4096") {
			t.Errorf("blocks of 512 bytes on sectors of 4096: %v", err)
		}
	}
}

// A second opener gets an error that names the process that has the device open.
func TestSecondOpener(t *testing.T) {
	t.Parallel() // Open waits for what may be only the end of a process
	l := newLoop(t, testSize, 512, 0)
	s := openStore(t, l.path, Config{})
	_, err := Open(l.path, Config{ReadOnly: true})
	var busy *InUseError
	if !errors.As(err, &busy) || !strings.Contains(err.Error(), "this process") {
		t.Errorf("second Open: %v", err)
	}
	forced := openStore(t, l.path, Config{Force: true})
	if notes := strings.Join(forced.Notes(), "\n"); !strings.Contains(notes, "with force") {
		t.Errorf("forced: notes %q", notes)
	}
	closeStore(t, forced)
	if err := run(t, s, transfer(backend.OpWrite, 0, 4096, 1)); err != nil {
		t.Error(err)
	}
	closeStore(t, s)
	for range 5 { // also while the kernel still ends the rings of the last one
		s := openStore(t, l.path, Config{})
		if err := run(t, s, transfer(backend.OpRead, 0, 4096, 0)); err != nil {
			t.Error(err)
		}
		closeStore(t, s)
	}
}

// TestServedBeneath: a loop device on a file that is served has the same data, and two writers would destroy it.
func TestServedBeneath(t *testing.T) {
	l := newLoop(t, testSize, 512, 0)
	serve := func(cfg file.Config) *file.Store {
		t.Helper()
		cfg.Force = true // there is the loop device
		s, err := file.Open(l.file, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := serve(file.Config{})
	for _, cfg := range []Config{{}, {ReadOnly: true}} {
		got, err := Open(l.path, cfg)
		var busy *InUseError
		if !errors.As(err, &busy) || !strings.Contains(err.Error(), "a loop device on "+l.file+", which is in use by this process: export it in one namespace only") {
			t.Errorf("%+v: %v, %v", cfg, got, err)
		}
	}
	forced := openStore(t, l.path, Config{Force: true})
	if notes := strings.Join(forced.Notes(), "\n"); !strings.Contains(notes, "with force although it is a loop device on "+l.file) {
		t.Errorf("forced: notes %q", notes)
	}
	closeStore(t, forced)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = serve(file.Config{ReadOnly: true})
	closeStore(t, openStore(t, l.path, Config{ReadOnly: true}))
	if _, err := Open(l.path, Config{}); !errors.As(err, new(*InUseError)) {
		t.Errorf("to write what others only read: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	closeStore(t, openStore(t, l.path, Config{}))
}

// A mounted device is refused, with the command that unmounts it.
func TestMounted(t *testing.T) {
	l := newLoop(t, testSize, 512, 0)
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Skip("there is no mkfs.ext4")
	}
	if out, err := exec.Command(mkfs, "-q", l.path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	at := t.TempDir()
	if err := unix.Mount(l.path, at, "ext4", 0, ""); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	defer unix.Unmount(at, 0)
	_, err = Open(l.path, Config{})
	var busy *InUseError
	if !errors.As(err, &busy) || busy.User != "mounted on "+at || busy.Mend != "umount "+at ||
		!strings.Contains(err.Error(), "run: umount "+at) || !strings.Contains(err.Error(), "force") {
		t.Errorf("Open of a mounted device: %v", err)
	}
	s := openStore(t, l.path, Config{Force: true, ReadOnly: true})
	closeStore(t, s)
}

// QEMU does not open devices exclusively but uses locks. It refuses a device that is open here.
func TestInUseByQEMU(t *testing.T) {
	l := newLoop(t, testSize, 512, 0)
	name, err := exec.LookPath("qemu-io")
	if err != nil {
		t.Skip("there is no qemu-io, of the package qemu-utils")
	}
	cmd := exec.Command(name, "-f", "raw", l.path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("length\n")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "20 MiB") {
	}
	var busy *InUseError
	if _, err := Open(l.path, Config{}); !errors.As(err, &busy) || !strings.Contains(err.Error(), "qemu-io") {
		t.Errorf("Open of a device that QEMU has: %v", err)
	}
	s := openStore(t, l.path, Config{Force: true})
	if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "with force") {
		t.Errorf("forced: notes %q", notes)
	}
	closeStore(t, s)
	in.Close()
	go io.Copy(io.Discard, out) // ends with the process
	cmd.Wait()
	s = openStore(t, l.path, Config{})
	if said, err := exec.Command(name, "-f", "raw", "-c", "write 0 4096", l.path).CombinedOutput(); !strings.Contains(string(said), "lock") {
		t.Errorf("QEMU writes to what is served: %s, %v", said, err)
	}
	closeStore(t, s)
}

func TestReadOnlyDevice(t *testing.T) {
	l := newLoop(t, testSize, 512, unix.LO_FLAGS_READ_ONLY)
	if _, err := Open(l.path, Config{}); err == nil || !strings.Contains(err.Error(), "read-only (ro)") {
		t.Errorf("Open for writing: %v", err)
	}
	s := openStore(t, l.path, Config{ReadOnly: true})
	defer closeStore(t, s)
	if info := s.Info(); !info.ReadOnly || info.Volatile || info.Deallocate {
		t.Errorf("%+v", info)
	}
	for op := backend.OpRead; op <= backend.OpDeallocate; op++ {
		want := backend.ErrReadOnly
		if op == backend.OpRead || op == backend.OpFlush {
			want = nil
		}
		if err := run(t, s, transfer(op, 0, 4096, 0)); err != want {
			t.Errorf("%v: %v, want %v", op, err, want)
		}
	}
}

func TestResize(t *testing.T) {
	l := newLoop(t, testSize, 512, 0)
	s := openStore(t, l.path, Config{})
	defer closeStore(t, s)
	for _, size := range []int64{2 * testSize, testSize, testSize, testSize / 2} {
		old := s.Info().Size
		if err := os.Truncate(l.file, size); err != nil {
			t.Fatal(err)
		}
		if err := unix.IoctlSetInt(int(l.device.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
			t.Fatal(err)
		}
		if size < old { // not noticed yet
			for _, op := range []backend.Op{backend.OpRead, backend.OpWrite} {
				if err := run(t, s, transfer(op, old-4096, 4096, 0)); err != backend.ErrOutOfRange {
					t.Errorf("%v beyond the device's new end: %v", op, err)
				}
			}
		}
		changed, err := s.Refresh()
		if err != nil || changed != (size != old) || s.Info().Size != size {
			t.Errorf("Refresh from %d to %d bytes: %v, %v, %d", old, size, changed, err, s.Info().Size)
		}
		if err := run(t, s, transfer(backend.OpWrite, size-4096, 4096, 7)); err != nil {
			t.Errorf("write to the last blocks: %v", err)
		}
	}
	if err := s.Failed(); err != nil {
		t.Errorf("a change of size latched the store: %v", err)
	}
}

// What is freed on the device is freed in its file.
func TestFreeing(t *testing.T) {
	for _, engine := range engines(t) {
		l := newLoop(t, testSize, 4096, 0)
		s := openStore(t, l.path, Config{})
		blocks := func() int64 {
			var st unix.Stat_t
			if err := unix.Stat(l.file, &st); err != nil {
				t.Fatal(err)
			}
			return st.Blocks
		}
		for _, op := range []backend.Op{backend.OpDeallocate, backend.OpWriteZeroes} {
			w := transfer(backend.OpWrite, 0, 8<<20, 1)
			w.FUA = true
			if err := run(t, s, w); err != nil {
				t.Fatal(err)
			}
			before := blocks()
			r := transfer(op, 1<<20, 4<<20, 0)
			r.Deallocate = true
			if err := run(t, s, r); err != nil {
				t.Fatal(err)
			}
			if after := blocks(); after > before-(3<<20)/512 {
				t.Errorf("%v, %v: %d blocks below before, %d after", engine, op, before, after)
			}
			read := transfer(backend.OpRead, 0, 8<<20, 9)
			if err := run(t, s, read); err != nil {
				t.Fatal(err)
			}
			for i, want := range map[int]byte{1<<20 - 1: 1, 1 << 20: 0, 5<<20 - 1: 0, 5 << 20: 1} {
				if read.Buf[i] != want {
					t.Errorf("%v, %v: byte %d is %d, want %d", engine, op, i, read.Buf[i], want)
				}
			}
		}
		closeStore(t, s)
	}
}

// The device holds what was written, from its first byte on, so file systems on it remain valid.
func TestSameBytes(t *testing.T) {
	l := newLoop(t, testSize, 512, 0)
	s := openStore(t, l.path, Config{})
	w := transfer(backend.OpWrite, 512, 512, 0xab)
	w.FUA = true
	if err := run(t, s, w); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	content, err := os.ReadFile(l.file)
	if err != nil || !bytes.Equal(content[512:1024], w.Buf) || content[511] != 0 || content[1024] != 0 {
		t.Errorf("the device holds something else: %v", err)
	}
}
