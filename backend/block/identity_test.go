package block

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestIdentity: devices are identified by what the kernel reports, partitions by their disk.
func TestIdentity(t *testing.T) {
	sys := t.TempDir()
	for name, text := range map[string]string{
		"sda/device/wwid":         "t10.ATA     QEMU HARDDISK   QM00001 \n",
		"sda/sda2/partition":      "2\n",
		"nvme0n1/wwid":            "eui.0025385b71b00f2a\n",
		"vda/serial":              "disk-1",
		"vdb/serial":              "",
		"dm-0/dm/uuid":            "LVM-abc\n",
		"loop0/loop/backing_file": "/srv/a (deleted)\n",
		"same/wwid":               "naa.5\n",
		"same/device/wwid":        "naa.5\n",
		"zram0/size":              "0\n",
		"nvme0n1/nvme0n1p1/start": "2048\n",
		"nvme0n1/device/serial":   "of the controller, which others have, too",
	} {
		name = filepath.Join(sys, "devices", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(sys, "dev/block"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		dir  string
		want []string
	}{
		{"sda", []string{"t10.ATA QEMU HARDDISK QM00001"}},
		{"sda/sda2", []string{"t10.ATA QEMU HARDDISK QM00001, partition 2"}},
		{"nvme0n1", []string{"eui.0025385b71b00f2a"}},
		{"vda", []string{"disk-1"}},
		{"vdb", nil},
		{"dm-0", []string{"LVM-abc"}},
		{"loop0", []string{"/srv/a"}},
		{"same", []string{"naa.5"}},
		{"zram0", nil},
		{"none", nil},
	} {
		number := "8:" + string(rune('0'+i))
		if err := os.Symlink("../../devices/"+c.dir, filepath.Join(sys, "dev/block", number)); err != nil {
			t.Fatal(err)
		}
		if got := identity(sys, number); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.dir, got, c.want)
		}
	}
	if got := Identity(filepath.Join(sys, "devices/vda/serial")); got != nil {
		t.Errorf("a file: %q", got)
	}
}

// TestIdentityOfLoop: a loop device is identified by its file.
func TestIdentityOfLoop(t *testing.T) {
	l := newLoop(t, testSize, 512, 0)
	if got := Identity(l.path); len(got) != 1 || !strings.HasSuffix(l.file, filepath.Base(got[0])) {
		t.Errorf("%q, want %s", got, l.file)
	}
}
