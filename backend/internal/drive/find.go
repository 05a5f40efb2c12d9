package drive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// Node returns the device node through which the drive below a block device is queried, or "" if there is no drive to
// query.
func Node(dev uint64) string {
	d, err := find("/sys", fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)))
	if err != nil {
		return ""
	}
	return d.node
}

// Health queries the drive below the block device with that number. It may take many seconds, since a sleeping drive is
// woken. The error wraps [backend.ErrNoHealth] if there is no drive to query.
func Health(dev uint64) (backend.Health, error) {
	d, err := find("/sys", fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)))
	if err != nil {
		return backend.Health{}, err
	}
	h, err := d.health()
	if err != nil {
		return backend.Health{}, fmt.Errorf("SMART data of %s: %w", d.node, err)
	}
	return h, nil
}

// health reads and parses. A read error counts only if the text up to it is not sufficient: the library requires more
// than is used here.
func (d *drive) health() (backend.Health, error) {
	text, readErr := d.read()
	h, err := d.parse(text)
	if err != nil && readErr != nil {
		err = readErr
	}
	return h, err
}

// A drive is a device node and the protocol to query it.
type drive struct {
	node  string
	read  func() (string, error)
	parse func(text string) (backend.Health, error)
}

// maxLayers limits how many devices may be stacked.
const maxLayers = 8

// find follows a block device to the single drive below it.
func find(sys, number string) (*drive, error) {
	dir, err := filepath.EvalSymlinks(filepath.Join(sys, "dev/block", number))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrNoHealth, err)
	}
	for range maxLayers {
		if exists(dir + "/partition") {
			dir = filepath.Dir(dir)
		}
		below, _ := os.ReadDir(dir + "/slaves")
		switch len(below) {
		case 0:
			return kind(dir)
		case 1:
			if dir, err = filepath.EvalSymlinks(dir + "/slaves/" + below[0].Name()); err != nil {
				return nil, fmt.Errorf("%w: %w", backend.ErrNoHealth, err)
			}
		default:
			return nil, fmt.Errorf("%w: %s is on %d devices", backend.ErrNoHealth, filepath.Base(dir), len(below))
		}
	}
	return nil, fmt.Errorf("%w: too many stacked devices", backend.ErrNoHealth)
}

// kind returns the command set of a disk, derived from its kernel name.
func kind(dir string) (*drive, error) {
	name := filepath.Base(dir)
	vendor, _ := os.ReadFile(dir + "/device/vendor")
	switch node := "/dev/" + name; {
	case strings.HasPrefix(name, "nvme"):
		if controller, err := filepath.EvalSymlinks(dir + "/device"); err == nil {
			// With multipath this is the subsystem, which has no node.
			if c := filepath.Base(controller); !strings.Contains(c, "subsys") {
				node = "/dev/" + c
			}
		}
		return &drive{node, func() (string, error) { return readNVMe(node) }, parseNVMe}, nil
	case strings.HasPrefix(name, "sd") && strings.TrimSpace(string(vendor)) == "ATA":
		return &drive{node, func() (string, error) { return readATA(node) }, parseATA}, nil
	case strings.HasPrefix(name, "sd"):
		return nil, fmt.Errorf("%w: %s is a SCSI disk (%s), whose health is not read", backend.ErrNoHealth, name, strings.TrimSpace(string(vendor)))
	}
	return nil, fmt.Errorf("%w: %s is a virtual disk", backend.ErrNoHealth, name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
