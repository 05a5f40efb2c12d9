package namedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is the maximum number of symbolic links followed, as in Linux.
const maxLinks = 40

// resolve returns the path of a file without symbolic links. The file itself may be missing.
func resolve(name string, uid int) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	links, at, rest := 0, "/", path
	for rest != "" {
		part, after, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		switch part {
		case "", ".":
			rest = after
			continue
		case "..":
			at, rest = filepath.Dir(at), after
			continue
		}
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) && after == "":
			return next, nil
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			at, rest = next, after
			continue
		}
		to, err := os.Readlink(next)
		if links++; err == nil && links > maxLinks {
			err = &fs.PathError{Op: "readlink", Path: name, Err: syscall.ELOOP}
		}
		if err == nil && uid == 0 {
			err = trusted(next, info)
		}
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = to + "/" + after
		if after == "" {
			rest = to
		}
	}
	return at, nil
}

// trusted prevents root from following another user's link to a file that is not that user's. Otherwise a user who may
// create links in a folder could have any file replaced.
func trusted(link string, info fs.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	target, err := os.Stat(link)
	if err == nil {
		if it, ok := target.Sys().(*syscall.Stat_t); ok && it.Uid == owner.Uid {
			return nil
		}
	}
	return fmt.Errorf("%s is a symbolic link of user %d to a file of another user, which root does not follow: give the path of the file itself", link, owner.Uid)
}
