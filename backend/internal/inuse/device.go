package inuse

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Device looks for the user of a device, or of a partition of it. User is empty if none is found.
func Device(path string) *Error {
	e := &Error{Path: path}
	device, ok := look(unix.AT_FDCWD, path)
	if !ok {
		return e
	}
	devs := withPartitions(sysfsOf(device.rdev))
	for _, find := range []func([]part) (user, mend string){mounted, swapped, held} {
		if e.User, e.Mend = find(devs); e.User != "" {
			return e
		}
	}
	if top := Exported(path); top != nil {
		return top
	}
	e.process(openerOf(devs))
	return e
}

// Exported looks for a kernel target that serves a device. Unlike other users it may not have opened the device
// exclusively. It returns nil if there is none.
func Exported(path string) *Error {
	device, ok := look(unix.AT_FDCWD, path)
	if !ok {
		return nil
	}
	user, mend := exported(configfs, func(other inode) bool { return other.isBlock() && other.rdev == device.rdev })
	if user == "" {
		return nil
	}
	return &Error{Path: path, User: user, Mend: mend}
}

// A part is a device or one of its partitions.
type part struct {
	number string // "8:1"
	name   string // "sda1"
	dir    string // in sysfs
}

func withPartitions(dir string) (parts []part) {
	add := func(dir string) {
		dev, err := os.ReadFile(dir + "/dev")
		if real, err2 := filepath.EvalSymlinks(dir); err == nil && err2 == nil {
			parts = append(parts, part{strings.TrimSpace(string(dev)), filepath.Base(real), dir})
		}
	}
	add(dir)
	partitions, _ := filepath.Glob(dir + "/*/partition")
	for _, p := range partitions {
		add(filepath.Dir(p))
	}
	return parts
}

func mounted(devs []part) (user, mend string) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", ""
	}
	defer f.Close()
	if at := findMount(f, devs); at != "" {
		return "mounted on " + at, "umount " + quoted(at)
	}
	return "", ""
}

// findMount parses the format of /proc/self/mountinfo, proc_pid_mountinfo(5):
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
//
// A file system on several devices has its own device number there, but names one of the devices. Lines are not limited
// in length: that of an overlayfs names all of its lower directories.
func findMount(r io.Reader, devs []part) string {
	table, _ := io.ReadAll(r) // as much as can be read
	for line := range strings.Lines(string(table)) {
		front, back, _ := strings.Cut(line, " - ")
		f, source := strings.Fields(front), strings.Fields(back)
		if len(f) < 5 || len(source) < 2 {
			continue
		}
		for _, d := range devs {
			if f[2] == d.number || source[1] == "/dev/"+d.name {
				return unescape(f[4])
			}
		}
	}
	return ""
}

// quoted quotes a word for a shell.
func quoted(s string) string {
	if strings.ContainsAny(s, " \t\n'\"\\$`&;|<>()*?[]#~!{}") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// unescape replaces \040 by a space, and so on.
func unescape(s string) string {
	for _, code := range []struct{ from, to string }{{`\040`, " "}, {`\011`, "\t"}, {`\012`, "\n"}, {`\134`, `\`}} {
		s = strings.ReplaceAll(s, code.from, code.to)
	}
	return s
}

func swapped(devs []part) (user, mend string) {
	text, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		for _, d := range devs {
			if name == "/dev/"+d.name {
				return "swap space", "swapoff " + name
			}
		}
	}
	return "", ""
}

// held looks for device-mapper and RAID devices on top of a device.
func held(devs []part) (user, mend string) {
	for _, d := range devs {
		holders, _ := os.ReadDir(d.dir + "/holders")
		for _, h := range holders {
			if name, err := os.ReadFile(d.dir + "/holders/" + h.Name() + "/dm/name"); err == nil {
				top := strings.TrimSpace(string(name))
				return fmt.Sprintf("part of /dev/mapper/%s (export that instead?)", top), "dmsetup remove " + top
			}
			if strings.HasPrefix(h.Name(), "md") {
				return "part of the RAID /dev/" + h.Name() + " (export that instead?)", "mdadm --stop /dev/" + h.Name()
			}
			return "part of /dev/" + h.Name(), ""
		}
	}
	return "", ""
}

// openerOf returns a process that has one of the devices open, or 0 if none is found.
func openerOf(devs []part) (pid int) {
	inDev := func(name string) bool { return strings.HasPrefix(name, "/dev/") }
	return opener(-1, inDev, func(other inode) bool {
		number := fmt.Sprintf("%d:%d", unix.Major(other.rdev), unix.Minor(other.rdev))
		return other.isBlock() && slices.ContainsFunc(devs, func(d part) bool { return d.number == number })
	})
}

// sysfsOf returns a device's directory in sysfs(5).
func sysfsOf(dev uint64) string {
	return fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev))
}
