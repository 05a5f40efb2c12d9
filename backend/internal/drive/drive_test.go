package drive

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

// nvmeText has the format of the library's text for an NVMe drive.
const nvmeText = `NVMe call: opcode=0x06, size=0x1000, nsid=0x00000000, cdw10=0x00000001

Vendor ID          : 0x1b36
Model number       : Example SSD 500GB
Serial number      : 1234
Firmware version   : 1.0
IEEE OUI identifier: 0x525400
Max. data xfer size: 512 pages
{MaxPower:604 Rsvd2:0 Flags:0 EntryLat:0 ExitLat:0}
NVMe call: opcode=0x06, size=0x1000, nsid=0x00000001, cdw10=0x00000000
Namespace 1 size: 976773168 sectors
Namespace 1 utilisation: 210000000 sectors

SMART data follows:
Critical warning: 0x05
Temperature: 38° Celsius
Avail. spare: 93%
Avail. spare threshold: 10%
Percentage used: 104%
Data units read: 16735297 [8.57 TB]
Data units written: 340282366920938463463374607431768211455 [huge]
Host read commands: 271828182
Host write commands: 314159265
Controller busy time: 1618
Power cycles: 871
Power on hours: 12003
Unsafe shutdowns: 55
Media & data integrity errors: 2
Error information log entries: 1073
`

func TestParseNVMe(t *testing.T) {
	want := backend.Health{
		Known: 1<<12 - 1, Warning: backend.WarnSpare | backend.WarnReliability, Temperature: 311, Spare: 93, SpareThreshold: 10, Used: 104,
		UnitsRead: 16735297, UnitsWritten: math.MaxUint64, Reads: 271828182, Writes: 314159265, BusyMinutes: 1618,
		PowerCycles: 871, PowerOnHours: 12003, UnsafeShutdowns: 55, MediaErrors: 2, ErrorLogEntries: 1073,
	}
	if got, err := parseNVMe(nvmeText); err != nil || got != want {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	// A drive without a temperature: 0 K, for which the library prints 65263.
	got, err := parseNVMe(strings.Replace(nvmeText, "38°", "65263°", 1))
	if err != nil || got.Temperature != 0 {
		t.Errorf("no temperature: %d, %v", got.Temperature, err)
	}
	for line := range strings.Lines(nvmeText[strings.Index(nvmeText, "Critical"):]) {
		key, value, _ := strings.Cut(line, ": ")
		for _, bad := range []string{"", key + ": x\n", key + ": -1\n", key + "\n", key + ": \n"} {
			if got, err := parseNVMe(strings.Replace(nvmeText, line, bad, 1)); err == nil {
				t.Errorf("%s of %q is %q: %+v", key, value, bad, got)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(nvmeText)
	f.Add("  9 Power_On_Hours           0x32   098   098   000      Old_age  Always  1234 (0 0 0)\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parseNVMe(text)
		_, _ = parseATA(text)
	})
}

// tree creates a sysfs tree of files and links ("-> TARGET").
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(filepath.Join(root, target), path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFind(t *testing.T) {
	sys := tree(t, map[string]string{
		"dev/block/259:0": "-> devices/pci/nvme/nvme3/nvme3n1",
		"dev/block/259:1": "-> devices/pci/nvme/nvme3/nvme3n1/nvme3n1p1",
		"devices/pci/nvme/nvme3/nvme3n1/nvme3n1p1/partition": "1\n",
		"devices/pci/nvme/nvme3/nvme3n1/device":              "-> devices/pci/nvme/nvme3",
		"devices/pci/nvme/nvme3/model":                       "x",

		"dev/block/259:5": "-> devices/virtual/nvme-subsystem/nvme-subsys4/nvme4n1",
		"devices/virtual/nvme-subsystem/nvme-subsys4/nvme4n1/device": "-> devices/virtual/nvme-subsystem/nvme-subsys4",
		"devices/virtual/nvme-subsystem/nvme-subsys4/model":          "x",

		"dev/block/8:0":                       "-> devices/ata/block/sda",
		"devices/ata/block/sda/device/vendor": "ATA     \n",
		"dev/block/8:16":                      "-> devices/sas/block/sdb",
		"devices/sas/block/sdb/device/vendor": "SEAGATE \n",

		"dev/block/253:0":                       "-> devices/virtual/block/dm-0",
		"devices/virtual/block/dm-0/slaves/sda": "-> devices/ata/block/sda",
		"dev/block/9:0":                         "-> devices/virtual/block/md0",
		"devices/virtual/block/md0/slaves/sda":  "-> devices/ata/block/sda",
		"devices/virtual/block/md0/slaves/sdb":  "-> devices/sas/block/sdb",
		"dev/block/253:1":                       "-> devices/virtual/block/dm-1",
		"devices/virtual/block/dm-1/slaves/x":   "-> devices/virtual/block/dm-1",
		"dev/block/7:0":                         "-> devices/virtual/block/loop0",
		"devices/virtual/block/loop0/size":      "1",
		"dev/block/254:0":                       "-> devices/pci/virtio/block/vda",
		"devices/pci/virtio/block/vda/size":     "1",
	})
	for number, want := range map[string]string{
		"259:0": "/dev/nvme3", "259:1": "/dev/nvme3", "259:5": "/dev/nvme4n1", "8:0": "/dev/sda", "253:0": "/dev/sda",
	} {
		if d, err := find(sys, number); err != nil || d.node != want {
			t.Errorf("%s: %+v, %v, want %s", number, d, err, want)
		}
	}
	for number, want := range map[string]string{
		"8:16": "SCSI disk (SEAGATE)", "9:0": "2 devices", "253:1": "too many", "7:0": "loop0 is a virtual disk",
		"254:0": "vda is a virtual disk", "1:2": "no such file",
	} {
		if d, err := find(sys, number); !errors.Is(err, backend.ErrNoHealth) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", number, d, err, want)
		}
	}
}

func TestHealthOfWhatIsNoDrive(t *testing.T) {
	if _, err := Health(0); !errors.Is(err, backend.ErrNoHealth) {
		t.Errorf("Health(0): %v", err)
	}
}
