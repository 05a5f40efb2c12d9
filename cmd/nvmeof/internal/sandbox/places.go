package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Places are the parts of the file system that a confined process can access. Paths are absolute. A directory includes
// everything in it, now and later, including mounts. Paths that do not exist are ignored.
type Places struct {
	Used    []string // may be read, written, created and removed
	Read    []string
	Sockets []string // directories in which unix sockets are created and removed
	Notify  string   // a unix socket to which the process writes

	files map[string]os.FileInfo // those of Used that were a file or a device when the process was confined
}

// AddFile adds the directory of a file, which need not exist yet. If the directory is missing or empty, a file system
// may have to be mounted there first: then the next existing directory above is added too.
func (p *Places) AddFile(file string) {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	folder := filepath.Dir(file)
	if folder == "/" { // never the whole root
		p.Used = append(p.Used, file)
		return
	}
	p.Used = append(p.Used, folder)
	if hasEntries(folder) {
		return
	}
	for above := filepath.Dir(folder); above != "/"; above = filepath.Dir(above) {
		if _, err := os.Lstat(above); err == nil {
			p.Used = append(p.Used, above)
			return
		}
	}
}

func hasEntries(folder string) bool {
	f, err := os.Open(folder)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return len(names) > 0
}

// resolve returns the existing paths without symbolic links and duplicates.
func (p Places) resolve() Places {
	real := func(paths []string) (all []string) {
		for _, path := range paths {
			if at, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
		return all
	}
	found := Places{real(p.Used), real(p.Read), real(p.Sockets), p.Notify, map[string]os.FileInfo{}}
	for _, path := range found.Used {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			found.files[path] = info
		}
	}
	return found
}

// An OutsideError is returned for a path that the process cannot access since it was confined.
type OutsideError struct {
	Path string
	Used []string
}

func (e *OutsideError) Error() string {
	return fmt.Sprintf("%s is outside the target's sandbox, which allows %s: add its directory to sandbox.paths in the configuration, or start the target with --sandbox off; both need a restart",
		e.Path, strings.Join(e.Used, ", "))
}

func (*OutsideError) Unwrap() error { return fs.ErrPermission }

// A ReplacedError is returned for a file or device that was replaced by another one since the process was confined,
// for example because a device was removed and returned. Landlock allows only the original one.
type ReplacedError struct{ Path string }

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s is not the file or device that existed when the target started, so its sandbox does not allow it: restart the target; if it is replaced regularly, add its directory to sandbox.paths in the configuration",
		e.Path)
}

func (*ReplacedError) Unwrap() error { return fs.ErrPermission }

// covers reports whether a directory is one of those that are used, or below one.
func (p Places) covers(folder string) bool {
	for _, place := range p.Used {
		if p.files[place] == nil && (folder == place || strings.HasPrefix(folder, strings.TrimSuffix(place, "/")+"/")) {
			return true
		}
	}
	return false
}

// permit returns an error if the process cannot write to a path or, if written is false, cannot read it.
func (p Places) permit(path string, written bool) error {
	places := p.Used
	if !written {
		places = slices.Concat(p.Used, p.Read)
	}
	// A path that does not exist yet is created in, or mounted below, its nearest existing parent.
	at, err := filepath.Abs(path)
	if err != nil {
		return nil // opening it fails with the same error
	}
	real, err := filepath.EvalSymlinks(at)
	for rest := ""; errors.Is(err, fs.ErrNotExist) && at != "/"; {
		rest = filepath.Join(filepath.Base(at), rest)
		at = filepath.Dir(at)
		if real, err = filepath.EvalSymlinks(at); err == nil {
			real = filepath.Join(real, rest)
		}
	}
	if err != nil {
		return nil // opening it fails with the same error
	}
	if was := p.files[real]; was != nil && !p.covers(filepath.Dir(real)) {
		if is, err := os.Stat(real); err == nil && !os.SameFile(was, is) {
			return &ReplacedError{path}
		}
	}
	for _, place := range places {
		if real == place || strings.HasPrefix(real, strings.TrimSuffix(place, "/")+"/") {
			return nil
		}
	}
	return &OutsideError{path, p.Used}
}
