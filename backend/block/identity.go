package block

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// identities are the sysfs files, below a block device's directory, that identify it: for NVMe, SCSI, virtio, memory
// cards, the device mapper, md and loop devices.
var identities = []string{"wwid", "device/wwid", "serial", "device/cid", "dm/uuid", "md/uuid", "loop/backing_file"}

// Identity returns the identifiers that the kernel has for a block device, whatever its name. Two devices without a
// common identifier are different. The result is empty if the kernel has no identifier or there is no such device. The
// device is not opened.
func Identity(path string) []string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return nil
	}
	return identity("/sys", fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)))
}

// identity is Identity for a device number.
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

// content returns the content of a file of one line, with single spaces, or "" if it cannot be read.
func content(name string) string {
	text, _ := os.ReadFile(name)
	return strings.Join(strings.Fields(strings.Trim(string(text), "\x00")), " ")
}
