package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/test/guest"
)

// TestBlockDevices runs the tests of package block that need root and loadable kernel modules: on loop devices with the
// guest's kernel, on disks with bad sectors, other geometries and hot removal, and on drives with SMART data.
func TestBlockDevices(t *testing.T) {
	inOwnGuest(t, "./backend/block", "block", "blocktests", 5*time.Minute)
}

// TestBadDisk runs the tests of package baddisk that need a disk of scsi_debug: a whole target and a host of ours, with
// errors of reads, writes and flushes and a disk that does not answer.
func TestBadDisk(t *testing.T) { inOwnGuest(t, "./test/baddisk", "baddisk", "baddisk", 3*time.Minute) }

// inOwnGuest runs the tests of a package, by a script, in a guest without a network.
func inOwnGuest(t *testing.T, folder, name, run string, limit time.Duration) {
	t.Helper()
	needGuest(t)
	image, err := guest.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := image.Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	dir := artefacts(t)
	build := exec.Command("go", "test", "-C", "../..", "-c", "-o", filepath.Join(dir, name+".test"), folder)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	g, err := guest.Boot(t.Context(), image, guest.Config{CPUs: 4, Share: dir, Drives: true, Fresh: *fresh, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	out, err := g.Run(t.Context(), limit, script(t, run, nil))
	t.Logf("in the guest:\n%s", out)
	if err != nil {
		t.Fatal(err)
	}
	if skipped := regexp.MustCompile(`(?m)^ *--- SKIP: .*`).FindAllString(out, -1); len(skipped) > 0 {
		t.Errorf("skipped in the guest, which has everything: %q", skipped)
	}
}
