// Package mounts manages the file systems of a node with mount(8), mkfs and the tools that enlarge them.
package mounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

// Usage is the usage of a mounted file system.
type Usage struct {
	Bytes, BytesFree   int64
	Inodes, InodesFree int64
}

// A Mounter implements the Mounts of package driver on this machine.
type Mounter struct {
	mounter *mount.SafeFormatAndMount
	resizer *mount.ResizeFs
}

// New returns a Mounter.
func New() *Mounter {
	exec := utilexec.New()
	return &Mounter{mount.NewSafeFormatAndMount(mount.New(""), exec), mount.NewResizeFs(exec)}
}

// Format implements Mounts.
func (m *Mounter) Format(_ context.Context, device, at, fs string, options []string, readOnly bool) error {
	if has, err := m.mounter.GetDiskFormat(device); err != nil {
		return fmt.Errorf("find the file system of %s: %w", device, err)
	} else if has == "" {
		if err := readable(device); err != nil {
			return fmt.Errorf("cannot determine whether %s has a file system: %w", device, err)
		}
	}
	if err := os.MkdirAll(at, 0o750); err != nil {
		return err
	}
	options = slices.Clone(options)
	if readOnly {
		options = append(options, "ro")
	}
	if err := m.mounter.FormatAndMount(device, at, fs, options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", device, at, err)
	}
	return nil
}

// blkid looks for signatures in the first 4 MiB and the last 2 MiB, and newer versions in more.
const signatures = 8 << 20

// readable returns an error if the beginning or the end of a device cannot be read. blkid reports such a device as
// empty, even if it contains a file system.
func readable(device string) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	n := min(size, signatures)
	for _, at := range []int64{0, size - n} {
		if err == nil {
			_, err = io.CopyN(io.Discard, io.NewSectionReader(f, at, n), n)
		}
	}
	return err
}

// Bind implements Mounts.
func (m *Mounter) Bind(_ context.Context, source, at string, device, readOnly bool) error {
	if err := place(at, device); err != nil {
		return err
	}
	options := []string{"bind"}
	if readOnly {
		options = append(options, "ro")
	}
	if err := m.mounter.Mount(source, at, "", options); err != nil {
		return errors.Join(fmt.Errorf("bind mount of %s at %s: %w", source, at, err), os.Remove(at))
	}
	return nil
}

// Protect implements Mounts.
func (m *Mounter) Protect(ctx context.Context, at string) error {
	if out, err := m.mounter.Exec.CommandContext(ctx, "mount", "-o", "remount,bind,ro", at).CombinedOutput(); err != nil {
		return fmt.Errorf("remount %s read-only: %w: %s", at, err, bytes.TrimSpace(out))
	}
	return nil
}

// place creates the directory or file on which something is mounted.
func place(at string, file bool) error {
	if !file {
		return os.MkdirAll(at, 0o750)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDONLY, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}

// Mounted implements Mounts.
func (m *Mounter) Mounted(at string) (bool, error) {
	there, err := m.mounter.IsMountPoint(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil && mount.IsCorruptedMnt(err): // its device is gone
		return true, nil
	}
	return there, err
}

// Holds implements Mounts.
func (m *Mounter) Holds(at, device string) (bool, error) {
	var node unix.Stat_t
	if err := unix.Stat(device, &node); err != nil {
		return false, fmt.Errorf("%s: %w", device, err)
	}
	at = resolved(at)
	all, err := mount.ParseMountInfo("/proc/self/mountinfo")
	for _, i := range slices.Backward(all) { // the last one is on top
		if i.MountPoint == at {
			return uint64(unix.Mkdev(uint32(i.Major), uint32(i.Minor))) == uint64(node.Rdev), err
		}
	}
	return false, err
}

// resolved returns a path as the kernel lists it. It examines only the parent directory, since the mounted file system
// may not answer.
func resolved(at string) string {
	folder, err := filepath.EvalSymlinks(filepath.Dir(at))
	if err != nil {
		return filepath.Clean(at)
	}
	return filepath.Join(folder, filepath.Base(at))
}

// Shown implements Mounts.
func (m *Mounter) Shown(source, at string) (there bool, elsewhere []string, err error) {
	var node unix.Stat_t
	if unix.Stat(source, &node) == nil && node.Mode&unix.S_IFMT == unix.S_IFBLK {
		elsewhere, err = shownDevice(source, uint64(node.Rdev))
	} else {
		elsewhere, err = m.mounter.GetMountRefs(source)
	}
	at = resolved(at)
	there = slices.Contains(elsewhere, at)
	return there, slices.DeleteFunc(elsewhere, func(path string) bool { return path == at }), err
}

// shownDevice returns the paths at which the node of a device is bind mounted. Such mounts are of the file systems
// that contain device nodes; no others are examined, since they may not answer.
func shownDevice(source string, number uint64) (at []string, err error) {
	all, err := mount.ParseMountInfo("/proc/self/mountinfo")
	for _, i := range all {
		var node unix.Stat_t
		if i.FsType != "devtmpfs" && i.FsType != "tmpfs" || i.Root == "/" || i.MountPoint == source || unix.Stat(i.MountPoint, &node) != nil {
			continue
		}
		if node.Mode&unix.S_IFMT == unix.S_IFBLK && uint64(node.Rdev) == number {
			at = append(at, i.MountPoint)
		}
	}
	return at, err
}

// Elsewhere implements Mounts.
func (m *Mounter) Elsewhere(device, but string) (places []string, err error) {
	var node unix.Stat_t
	if err := unix.Stat(device, &node); err != nil {
		return nil, fmt.Errorf("%s: %w", device, err)
	}
	if places, err = shownDevice(device, uint64(node.Rdev)); err != nil {
		return nil, err
	}
	all, err := mount.ParseMountInfo("/proc/self/mountinfo")
	for _, i := range all {
		if unix.Mkdev(uint32(i.Major), uint32(i.Minor)) == uint64(node.Rdev) {
			places = append(places, i.MountPoint)
		}
	}
	but = resolved(but)
	return slices.DeleteFunc(places, func(path string) bool { return path == but }), err
}

// Unmount implements Mounts.
func (m *Mounter) Unmount(_ context.Context, at string, remove bool) error {
	if remove {
		return mount.CleanupMountPoint(at, m.mounter, true)
	}
	there, err := m.Mounted(at)
	if err != nil || !there {
		return err
	}
	return m.mounter.Unmount(at)
}

// Grow implements Mounts.
func (m *Mounter) Grow(_ context.Context, device, at string) error {
	need, err := m.resizer.NeedResize(device, at)
	if err != nil || !need {
		return err
	}
	_, err = m.resizer.Resize(device, at)
	return err
}

// Usage implements Mounts.
func (m *Mounter) Usage(at string) (Usage, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(at, &s); err != nil {
		return Usage{}, fmt.Errorf("%s: %w", at, err)
	}
	size := int64(s.Bsize)
	return Usage{Bytes: int64(s.Blocks) * size, BytesFree: int64(s.Bavail) * size, Inodes: int64(s.Files), InodesFree: int64(s.Ffree)}, nil
}
