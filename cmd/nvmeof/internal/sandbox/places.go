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

// Places are what a confined process reaches of the file system. Paths are absolute; a folder
// stands for all that is in it, now and later, mounts included. What does not exist is left out.
type Places struct {
	Used    []string // read, written, made and removed
	Read    []string
	Sockets []string // folders in which it makes and removes unix sockets
	Notify  string   // a unix socket to which it writes

	files map[string]os.FileInfo // of Used, what was a file or a device when it was confined to it
}

// AddFile adds the folder of a file that is there, or is to come. Where the folder is missing or empty, what is to be
// there may have to be mounted first: then the folder above is added too.
func (p *Places) AddFile(file string) {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	folder := filepath.Dir(file)
	if folder == "/" { // all of it is no place
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

// resolve makes the paths those of what exists, each once.
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

// An OutsideError is a path that the process does not reach since it is confined.
type OutsideError struct {
	Path string
	Used []string
}

func (e *OutsideError) Error() string {
	return fmt.Sprintf("%s is outside the target's sandbox, which allows %s: add its directory to sandbox.paths in the configuration, or start the target with --sandbox off; both need a restart",
		e.Path, strings.Join(e.Used, ", "))
}

func (*OutsideError) Unwrap() error { return fs.ErrPermission }

// A ReplacedError is a file or device of the sandbox in whose place there is another since the
// process was confined, as there is when a device returns: Landlock knows the one that was there.
type ReplacedError struct{ Path string }

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s is not the one that was there when the target started, which its sandbox allows: restart the target; for one that comes and goes, name its directory in sandbox.paths of the configuration",
		e.Path)
}

func (*ReplacedError) Unwrap() error { return fs.ErrPermission }

// covers reports whether a folder is, or is in, one of those that are used.
func (p Places) covers(folder string) bool {
	for _, place := range p.Used {
		if p.files[place] == nil && (folder == place || strings.HasPrefix(folder, strings.TrimSuffix(place, "/")+"/")) {
			return true
		}
	}
	return false
}

// permit reports with an error that a file cannot be used, or where it is only read, not read either.
func (p Places) permit(path string, written bool) error {
	places := p.Used
	if !written {
		places = slices.Concat(p.Used, p.Read)
	}
	// What is not there yet is made in a folder that is, or what is to be mounted there.
	at, err := filepath.Abs(path)
	if err != nil {
		return nil // whoever opens it meets the same
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
		return nil // whoever opens it meets the same
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
