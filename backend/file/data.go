package file

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// HasData reports whether a file has something else than holes, and than storage that nobody has written to, as far
// as its file system tells; where that does not, whether it is longer than nothing. One that is not there has none.
func HasData(path string) (bool, error) {
	fd, err := openRetry(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	_, err = unix.Seek(fd, 0, unix.SEEK_DATA)
	switch err {
	case nil:
		return true, nil
	case unix.ENXIO: // none from there to the end
		return false, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Size > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG, nil
}
