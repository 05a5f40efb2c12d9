package namedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Options say how to replace a file.
type Options struct {
	// Secret says that only the owner may read the file, whatever its mode was.
	Secret bool
}

// Replace replaces the content of a file, or creates it with mode 0600. After a crash the file has either the old or
// the new content.
//
// Mode, owner, group and access list are kept as far as the process may set them. If the file cannot keep its owner, it
// belongs to the user of the process, and its group may read it only if the group is unchanged. A file that root
// creates belongs to the owner and group of its folder. A symbolic link is followed, except by root if another user
// could have made it point to files that are not that user's. A file that is not regular, such as /dev/stdout, is
// written to.
func Replace(name string, text []byte, o Options) error {
	s, err := Stage(name, text, o)
	if err != nil {
		return err
	}
	return s.Commit()
}

// A Staged is the new content of a file, stored durably beside it under another name. End it with Commit or Discard.
type Staged struct {
	folder *os.Root
	file   *os.File // the new file, locked: an unlocked one was left behind
	next   string   // name in the folder; "": the named file is not a regular file
	final  string
	name   string
	text   []byte
}

// Stage does the part of [Replace] that can fail, without changing the file.
func Stage(name string, text []byte, o Options) (*Staged, error) {
	if info, err := os.Stat(name); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice|fs.ModeSocket) != 0 {
		return &Staged{name: name, text: text}, nil
	}
	path, err := resolve(name, os.Geteuid())
	if err != nil {
		return nil, err
	}
	folder, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	s := &Staged{folder: folder, final: filepath.Base(path), name: name}
	if err := s.stage(text, o); err != nil {
		s.Discard()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// Commit replaces the file.
func (s *Staged) Commit() error {
	defer s.Discard()
	if s.folder == nil {
		f, err := os.OpenFile(s.name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(s.text)
		return errors.Join(err, f.Close())
	}
	if err := s.folder.Rename(s.next, s.final); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.next = ""
	_ = s.file.Close() // its content is already durable
	d, err := s.folder.Open(".")
	if err != nil {
		return err
	}
	return syncEntries(d)
}

// Discard removes the new content if it was not committed. It may be called more than once.
func (s *Staged) Discard() {
	if s.folder == nil {
		return
	}
	if s.next != "" {
		_ = s.folder.Remove(s.next)
		_ = s.file.Close()
		s.next = ""
	}
	_ = s.folder.Close()
}

func (s *Staged) stage(text []byte, o Options) error {
	old, err := s.folder.Lstat(s.final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = nil
	case err != nil:
		return err
	case !old.Mode().IsRegular():
		return errors.New("it is not a regular file, and cannot be replaced")
	}
	if err := s.create(); err != nil {
		return err
	}
	_, err = s.file.Write(text)
	return errors.Join(err, s.copyAttributes(s.file, old, o), s.file.Sync())
}

// copyAttributes gives the new file the owner, group, mode and access list of the old one, or, if there is none, those for a new
// file in its folder.
func (s *Staged) copyAttributes(f *os.File, old fs.FileInfo, o Options) error {
	mode := fs.FileMode(0o600)
	like := old
	if like == nil {
		if os.Geteuid() != 0 {
			return nil
		}
		folder, err := s.folder.Stat(".")
		if err != nil {
			return err
		}
		like = folder
	} else {
		mode = old.Mode().Perm()
	}
	if !give(f, like) {
		mode &^= 0o070 // the mode was meant for another group
	}
	if o.Secret {
		mode &= 0o700
	}
	if err := f.Chmod(mode); err != nil || old == nil || o.Secret {
		return err
	}
	return s.copyAccessList(f)
}

// give gives a file the owner and group of another file, or only the group, and reports whether it has the group.
func give(f *os.File, like fs.FileInfo) bool {
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	if f.Chown(int(want.Uid), int(want.Gid)) != nil {
		_ = f.Chown(-1, int(want.Gid)) // the result is checked below
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && is.Gid == want.Gid
}

// accessList is the extended attribute for what setfacl sets.
const accessList = "system.posix_acl_access"

func (s *Staged) copyAccessList(to *os.File) error {
	from, err := s.folder.OpenFile(s.final, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil // a file that may be replaced but not read
	}
	defer from.Close()
	list := make([]byte, 64<<10)
	n, err := unix.Fgetxattr(int(from.Fd()), accessList, list)
	if err != nil { // there is none
		return nil
	}
	return unix.Fsetxattr(int(to.Fd()), accessList, list[:n], 0)
}

// MakeFolder creates a folder and its missing parents durably. They have mode 0700; if root creates them, they belong
// to the owner and group of the folder above.
func MakeFolder(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	above := filepath.Dir(filepath.Clean(name))
	if err := MakeFolder(above); err != nil {
		return err
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	if err := syncFolder(above); err != nil || os.Geteuid() != 0 {
		return err
	}
	parent, err := os.Stat(above)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	give(f, parent)
	return f.Close()
}

// Remove removes a file, if it exists, such that it stays removed after a crash.
func Remove(name string) error {
	err := os.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) { // an earlier removal may not be durable
		err = syncFolder(filepath.Dir(name))
	}
	if errors.Is(err, fs.ErrNotExist) { // the folder is missing too
		return nil
	}
	return err
}

// syncFolder makes the entries of a folder durable, if the process may read it.
func syncFolder(name string) error {
	d, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil
	case err != nil:
		return err
	}
	return syncEntries(d)
}

// syncEntries makes the entries of an open folder durable, and closes it.
func syncEntries(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, syscall.EINVAL) { // the file system does not sync folders
		err = nil
	}
	return errors.Join(err, d.Close())
}
