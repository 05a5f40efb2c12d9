package inuse

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// File looks for a kernel user of the regular file that is open as fd: a loop device, swap, a mount or a target. A
// read-only user does not conflict with other readers. It returns nil if no user is found.
func File(fd int, path string, readOnly bool) *Error {
	own, ok := look(fd, "")
	if !ok {
		return nil
	}
	is := own.same
	for _, find := range []func() (user, mend string){
		func() (string, string) { return attached(is, readOnly) },
		func() (string, string) { return swapFile(is) },
		func() (string, string) { return mountedImage(path, is) },
		func() (string, string) { return exported(configfs, is) },
	} {
		if user, mend := find(); user != "" {
			return &Error{Path: path, User: user, Mend: mend}
		}
	}
	return nil
}

// attached looks for a loop device on the file.
func attached(is func(inode) bool, readOnly bool) (user, mend string) {
	backing, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, name := range backing {
		dir := filepath.Dir(filepath.Dir(name))
		device := "/dev/" + filepath.Base(dir)
		if !sameAs(content(name), is) && !loopOn(device, is) || readOnly && content(dir+"/ro") == "1" {
			continue
		}
		user, mend = "attached to "+device, "losetup -d "+device
		if top := Device(device); top.User != "" && !top.here {
			user += ", which is " + top.User
			switch {
			case top.Mend == "":
				mend = ""
			case content(dir+"/loop/autoclear") == "1":
				mend = top.Mend
			default:
				mend = top.Mend + " && " + mend
			}
		}
		return user, mend
	}
	return "", ""
}

// loopOn queries the loop device itself, because its file may have another name in this mount namespace, or none.
func loopOn(device string, is func(inode) bool) bool {
	f, err := os.Open(device)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	return err == nil && is(inode{dev: info.Device, ino: info.Inode})
}

func swapFile(is func(inode) bool) (user, mend string) {
	for line := range strings.Lines(content("/proc/swaps")) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[1] == "file" && sameAs(unescape(fields[0]), is) {
			return "swap space", "swapoff " + quoted(unescape(fields[0]))
		}
	}
	return "", ""
}

// mountedImage looks for a file system that is mounted from the file itself, without a loop device. EROFS supports
// that, and so do FUSE file systems that serve an image.
func mountedImage(path string, is func(inode) bool) (user, mend string) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", ""
	}
	defer f.Close()
	name := filepath.Base(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		name = filepath.Base(real)
	}
	if at := findImage(f, name, is); at != "" {
		return "mounted on " + at, "umount " + quoted(at)
	}
	return "", ""
}

// findImage searches text in the format of findMount for a source with that name that is the file.
func findImage(r io.Reader, name string, is func(inode) bool) string {
	table, _ := io.ReadAll(r) // as much as can be read
	for line := range strings.Lines(string(table)) {
		front, back, _ := strings.Cut(line, " - ")
		f, source := strings.Fields(front), strings.Fields(back)
		if len(f) < 5 || len(source) < 2 {
			continue
		}
		if from := unescape(source[1]); filepath.Base(from) == name && sameAs(from, is) {
			return unescape(f[4])
		}
	}
	return ""
}

// configfs is where kernel targets are configured.
const configfs = "/sys/kernel/config"

// exported looks for a kernel target that serves a file or a device.
func exported(root string, is func(inode) bool) (user, mend string) {
	namespaces, _ := filepath.Glob(root + "/nvmet/subsystems/*/namespaces/*")
	for _, dir := range namespaces {
		if content(dir+"/enable") == "1" && sameAs(content(dir+"/device_path"), is) {
			nqn := filepath.Base(filepath.Dir(filepath.Dir(dir)))
			return fmt.Sprintf("namespace %s of %s of the kernel's NVMe target", filepath.Base(dir), nqn),
				"echo 0 > " + quoted(dir+"/enable")
		}
	}
	stores, _ := filepath.Glob(root + "/target/core/*/*/udev_path")
	for _, name := range stores {
		if dir := filepath.Dir(name); content(dir+"/enable") == "1" && sameAs(content(name), is) {
			kind, _, _ := strings.Cut(filepath.Base(filepath.Dir(dir)), "_")
			if kind == "iblock" {
				kind = "block"
			}
			return fmt.Sprintf("backstore %s of the kernel's SCSI target", filepath.Base(dir)),
				fmt.Sprintf("targetcli /backstores/%s delete %s", kind, quoted(filepath.Base(dir)))
		}
	}
	return "", ""
}

// content returns the content of a small file without the final newline, or "" if it cannot be read.
func content(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

// sameAs reports whether name refers to the file or device that is looked for.
func sameAs(name string, is func(inode) bool) bool {
	if name == "" {
		return false
	}
	i, ok := look(unix.AT_FDCWD, name)
	return ok && is(i)
}
