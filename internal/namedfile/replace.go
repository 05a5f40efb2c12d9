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

// Options say how a file is replaced.
type Options struct {
	// Secret says that nobody but the owner may read the file, whatever its mode was.
	Secret bool
}

// Replace gives a file another content, or makes it with mode 0600. A crash leaves the
// old content or the new.
//
// Mode, owner, group and access list stay as they were, as far as the process may set
// them: a file becomes that of the process if it cannot stay another user's, and its
// group may then read it only if it is the same. A file that root makes belongs to the
// owner and group of its folder. A symbolic link is followed, by root not where another
// user could have led it to files that are not that user's. What is no regular file, as
// /dev/stdout, is written to.
func Replace(name string, text []byte, o Options) error {
	s, err := Stage(name, text, o)
	if err != nil {
		return err
	}
	return s.Commit()
}

// A Staged is the new content of a file, durable beside it under another name. Commit or
// Discard ends it.
type Staged struct {
	folder *os.Root
	file   *os.File // the new one, locked: what nobody has locked was left behind
	next   string   // name in the folder; empty: name is no regular file
	final  string
	name   string
	text   []byte
}

// Stage does what can fail of [Replace], and leaves the file as it is.
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

// Commit puts the new content in its place.
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
	_ = s.file.Close() // all of it is durable
	d, err := s.folder.Open(".")
	if err != nil {
		return err
	}
	return syncEntries(d)
}

// Discard removes what is not in its place. It may be called more than once.
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
		return errors.New("it is no file that can be replaced")
	}
	if err := s.create(); err != nil {
		return err
	}
	_, err = s.file.Write(text)
	return errors.Join(err, s.dress(s.file, old, o), s.file.Sync())
}

// dress gives a new file owner, group, mode and access list of the old one, or, if there
// is none, those that it should have in its folder.
func (s *Staged) dress(f *os.File, old fs.FileInfo, o Options) error {
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
		mode &^= 0o070 // another group than that for which the mode was meant
	}
	if o.Secret {
		mode &= 0o700
	}
	if err := f.Chmod(mode); err != nil || old == nil || o.Secret {
		return err
	}
	return s.copyAccessList(f)
}

// give gives a file to owner and group of another, or to the group alone, and reports
// whether it has the group.
func give(f *os.File, like fs.FileInfo) bool {
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	if f.Chown(int(want.Uid), int(want.Gid)) != nil {
		_ = f.Chown(-1, int(want.Gid)) // what came of it is seen below
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && is.Gid == want.Gid
}

// accessList is where Linux keeps what setfacl sets.
const accessList = "system.posix_acl_access"

func (s *Staged) copyAccessList(to *os.File) error {
	from, err := s.folder.OpenFile(s.final, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil // one that may be replaced, and not be read
	}
	defer from.Close()
	list := make([]byte, 64<<10)
	n, err := unix.Fgetxattr(int(from.Fd()), accessList, list)
	if err != nil { // there is none
		return nil
	}
	return unix.Fsetxattr(int(to.Fd()), accessList, list[:n], 0)
}

// MakeFolder makes a folder and those above it as far as they are missing, durably. They
// have mode 0700, and made by root they belong to owner and group of the folder above.
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

// Remove removes a file, if it is there, such that it stays away after a crash.
func Remove(name string) error {
	err := os.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) { // whoever removed it may have been ended before it was durable
		err = syncFolder(filepath.Dir(name))
	}
	if errors.Is(err, fs.ErrNotExist) { // nor is the folder
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
	if errors.Is(err, syscall.EINVAL) { // such a file system does not sync folders
		err = nil
	}
	return errors.Join(err, d.Close())
}
