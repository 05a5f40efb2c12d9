package block

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// identities are the files of sysfs by which a block device is known from others of its kind, below its folder: of
// NVMe and SCSI, of virtio, of memory cards, of the device mapper, of md, and of loop devices.
var identities = []string{"wwid", "device/wwid", "serial", "device/cid", "dm/uuid", "md/uuid", "loop/backing_file"}

// Identity is what the kernel knows a block device by, whatever name it has: two devices that have nothing of
// that in common are not the same. It is empty where the kernel knows nothing, or there is no such device. The
// device is not opened.
func Identity(path string) []string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return nil
	}
	return identity("/sys", fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)))
}

// identity is Identity of a device by its number.
func identity(sys, number string) (all []string) {
	dir, err := filepath.EvalSymlinks(filepath.Join(sys, "dev/block", number))
	if err != nil {
		return nil
	}
	part := ""
	if number := content(dir + "/partition"); number != "" {
		dir, part = filepath.Dir(dir), ", partition "+number
	}
	for _, name := range identities {
		if what := strings.TrimSuffix(content(filepath.Join(dir, name)), " (deleted)"); what != "" && !slices.Contains(all, what+part) {
			all = append(all, what+part)
		}
	}
	return all
}

// content is that of a file of one line, with single spaces; empty: there is none.
func content(name string) string {
	text, _ := os.ReadFile(name)
	return strings.Join(strings.Fields(strings.Trim(string(text), "\x00")), " ")
}
