package block

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
)

// newSCSI loads scsi_debug with one disk of 32 MiB and returns its name, "sda".
func newSCSI(t *testing.T, options ...string) string {
	t.Helper()
	if !*withSCSI {
		t.Skip("loads a kernel module: go test ./backend/block -scsi_debug, as root")
	}
	args := append([]string{"scsi_debug", "dev_size_mb=32"}, options...)
	if out, err := exec.Command("modprobe", args...).CombinedOutput(); err != nil {
		t.Fatalf("modprobe %v: %v\n%s", args, err, out)
	}
	t.Cleanup(func() {
		var out []byte
		var err error
		for range 50 { // the kernel frees rings, which keep the disk open, after a while
			if out, err = exec.Command("modprobe", "-r", "scsi_debug").CombinedOutput(); err == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("modprobe -r: %v\n%s", err, out)
	})
	for range 500 {
		disks, _ := filepath.Glob("/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*:*/block/sd*")
		if len(disks) > 0 {
			name := filepath.Base(disks[0])
			if f, err := os.OpenFile("/dev/"+name, os.O_RDONLY, 0); err == nil {
				f.Close()
				return name
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("scsi_debug shows no disk")
	return ""
}

func TestSCSIGeometry(t *testing.T) {
	for _, tt := range []struct {
		options []string
		want    backend.Info // without Size and Alignment
	}{
		{[]string{"sector_size=512", "physblk_exp=0"}, backend.Info{BlockSize: 512}},
		{[]string{"sector_size=512", "physblk_exp=3", "lbpu=1"}, backend.Info{BlockSize: 512, Deallocate: true}},
		{[]string{"sector_size=4096", "lbpws=1", "lbprz=1"}, backend.Info{BlockSize: 4096, Deallocate: true}},
	} {
		t.Run(fmt.Sprint(tt.options), func(t *testing.T) {
			s := openStore(t, "/dev/"+newSCSI(t, tt.options...), Config{})
			defer closeStore(t, s)
			info := s.Info()
			if info.BlockSize != tt.want.BlockSize || info.Deallocate != tt.want.Deallocate || info.Size != 32<<20 || !info.Volatile {
				t.Errorf("%+v, want %+v", info, tt.want)
			}
			// With and without zeroing by the drive, FUA, and a write cache.
			for _, op := range []backend.Op{backend.OpWrite, backend.OpWriteZeroes, backend.OpDeallocate, backend.OpFlush, backend.OpRead} {
				r := transfer(op, 1<<20, 1<<20, 5)
				r.FUA, r.Deallocate = true, op == backend.OpWriteZeroes
				if err := run(t, s, r); err != nil {
					t.Errorf("%v: %v", op, err)
				}
			}
		})
	}
}

// A bad sector causes errors only of requests that touch it.
func TestSCSIMediumError(t *testing.T) {
	const first, n = 4660, 10 // OPT_MEDIUM_ERR_ADDR and _NUM of scsi_debug
	name := newSCSI(t, "opts=2")
	for _, engine := range engines(t) {
		s := openStore(t, "/dev/"+name, Config{Options: disk.Options{Engine: engine}})
		for lba, want := range map[int64]error{first - 8: nil, first: unix.EIO, first + n - 1: unix.EIO, first + n: nil} {
			err := run(t, s, transfer(backend.OpRead, lba*512, 512, 0))
			if want == nil && err != nil || want != nil && err == nil {
				t.Errorf("%v: read of block %d: %v, want %v", engine, lba, err, want)
			}
		}
		if err := s.Failed(); err != nil {
			t.Errorf("%v: a bad sector latched the store: %v", engine, err)
		}
		closeStore(t, s)
	}
}

// A disk is removed while it is in use.
func TestSCSIGone(t *testing.T) {
	for _, engine := range engines(t) {
		t.Run(engine.String(), func(t *testing.T) {
			name := newSCSI(t)
			s := openStore(t, "/dev/"+name, Config{Options: disk.Options{Engine: engine}})
			if err := run(t, s, transfer(backend.OpWrite, 0, 4096, 1)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("/sys/block/"+name+"/device/delete", []byte("1"), 0); err != nil {
				t.Fatal(err)
			}
			if err := run(t, s, transfer(backend.OpRead, 0, 4096, 0)); err == nil {
				t.Error("read from a disk that is gone")
			}
			err := run(t, s, transfer(backend.OpWrite, 0, 4096, 2))
			if !errors.Is(err, disk.ErrGone) && !errors.Is(err, backend.ErrFailed) {
				t.Errorf("write to a disk that is gone: %v", err)
			}
			if _, err := s.Refresh(); !errors.Is(err, disk.ErrGone) {
				t.Errorf("Refresh: %v", err)
			}
			if err := s.Failed(); !errors.Is(err, disk.ErrGone) {
				t.Errorf("Failed: %v", err)
			}
			if err := s.Clear(); !errors.Is(err, disk.ErrGone) {
				t.Errorf("Clear: %v", err)
			}
			closeStore(t, s)
		})
	}
}

// TestDriveHealth queries drives that respond like real ones.
func TestDriveHealth(t *testing.T) {
	if *withDrives == "" {
		t.Skip("needs drives: go test ./backend/block -drives /dev/nvme0n1,/dev/sda, as root")
	}
	for _, path := range strings.Split(*withDrives, ",") {
		s := openStore(t, path, Config{ReadOnly: true})
		h, err := s.Health()
		t.Logf("%s: %+v", path, h)
		switch {
		case err != nil:
			t.Errorf("%s: %v", path, err)
		case h.Known&backend.HealthPowerOnHours == 0:
			t.Errorf("%s: power-on hours are unknown", path)
		case h.Known&backend.HealthTemperature != 0 && (h.Temperature < 273 || h.Temperature > 373):
			t.Errorf("%s: %d kelvins", path, h.Temperature)
		case strings.Contains(path, "nvme") && (h.Known != 1<<12-1 || h.Spare > 100):
			t.Errorf("%s: known fields %#x, spare %d", path, h.Known, h.Spare)
		}
		closeStore(t, s)
	}
}

// The error for a loop device.
func TestNoHealth(t *testing.T) {
	l := newLoop(t, testSize, 512, 0)
	s := openStore(t, l.path, Config{})
	defer closeStore(t, s)
	if _, err := s.Health(); !errors.Is(err, backend.ErrNoHealth) || !strings.Contains(err.Error(), "virtual") {
		t.Errorf("Health of a loop device: %v", err)
	}
}
