package baddisk

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

var withSCSI = flag.Bool("scsi_debug", false, "load scsi_debug(4), whose disks fail on demand; for a machine without other SCSI disks, as root")

// A scsiDisk is a disk of the kernel module scsi_debug.
type scsiDisk struct {
	t          *testing.T
	path       string
	errors     string // directory in which errors are injected
	parameters string // of the module
}

func newSCSIDisk(t *testing.T) *scsiDisk {
	t.Helper()
	if !*withSCSI {
		t.Skip("loads a kernel module: go test ./test/baddisk -scsi_debug, as root")
	}
	if out, err := exec.Command("modprobe", "scsi_debug", "dev_size_mb=32").CombinedOutput(); err != nil {
		t.Fatalf("modprobe: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		for range 100 { // the kernel ends io_uring rings, which hold the disk open, after a while
			if exec.Command("modprobe", "-r", "scsi_debug").Run() == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Error("the module stays")
	})
	d := &scsiDisk{t: t, parameters: "/sys/bus/pseudo/drivers/scsi_debug"}
	for range 1000 {
		disks, _ := filepath.Glob(d.parameters + "/adapter*/host*/target*/*:*/block/sd*")
		injects, _ := filepath.Glob("/sys/kernel/debug/scsi_debug/*/error")
		if len(disks) > 0 && len(injects) > 0 {
			d.path, d.errors = "/dev/"+filepath.Base(disks[0]), injects[0]
			if f, err := os.Open(d.path); err == nil {
				f.Close()
				return d
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("scsi_debug shows no disk, or injects no errors: is debugfs mounted?")
	return nil
}

func (d *scsiDisk) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		d.t.Fatalf("%s: %v", text, err)
	}
}

// SCSI commands.
const (
	scsiRead10  = 0x28
	scsiWrite10 = 0x2a
	scsiSync10  = 0x35
)

// fail makes a command fail with a medium error, until heal.
func (d *scsiDisk) fail(opcode int) {
	d.t.Helper()
	d.write(d.errors, fmt.Sprintf("2 1 %#x 0 0 0x2 0x3 0x11 0x0", opcode))
}

func (d *scsiDisk) heal(opcode int) {
	d.t.Helper()
	d.write(d.errors, fmt.Sprintf("- 2 %#x", opcode))
}

// TestDevice: what a host sees of a disk that fails reads, writes and flushes, and of one that does not answer for ten
// seconds.
func TestDevice(t *testing.T) {
	d := newSCSIDisk(t)
	r := newRig(t, nil, "file:\n          path: BAD/disk\n          size: 4MiB\n", "block:\n          path: "+d.path+"\n")
	k := r.connect()
	k.well(1)
	for _, c := range []struct {
		opcode int
		do     func(context.Context, *host.Namespace) error
		want   capsule.Status
		fails  bool
	}{
		{scsiRead10, read, capsule.StatusUnrecoveredReadError, false},
		{scsiWrite10, write, capsule.StatusWriteFault, false},
		{scsiWrite10, durably, capsule.StatusWriteFault, true},
		{scsiSync10, flush, capsule.StatusWriteFault, true},
	} {
		r.logs.TakeAll()
		d.fail(c.opcode)
		k.want(1, c.do, c.want)
		k.well(2)
		d.heal(c.opcode)
		if !c.fails {
			k.well(1)
			continue
		}
		k.want(1, write, capsule.StatusWriteFault)
		k.want(1, flush, capsule.StatusWriteFault)
		k.want(1, read, capsule.StatusSuccess)
		r.trouble(failedStore)
		r.must(r.ClearFault("a", 1))
		r.trouble("")
		k.well(1)
	}

	ticks, err := os.ReadFile(d.parameters + "/delay")
	r.must(err)
	d.write(d.parameters+"/delay", "2500") // ticks of 4 ms, as configured in Debian
	var ended sync.WaitGroup
	for range 4 {
		ended.Go(func() { // ends when the disk answers
			_, _ = k.spaces[1].WriteAtContext(context.Background(), make([]byte, 8192), 4096)
		})
	}
	time.Sleep(time.Second)
	k.well(2)
	r.connect().well(3)
	r.trouble("has not answered since")
	k.well(2)
	ended.Wait()
	d.write(d.parameters+"/delay", string(ticks))
	r.trouble("")
	k.well(1)
}
