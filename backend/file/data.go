package file

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// HasData reports whether a file has data that is neither a hole nor preallocated storage without content. If the file
// system cannot tell, it reports whether the size is above zero. A missing file has no data.
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
	case unix.ENXIO: // no data from there to the end
		return false, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Size > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG, nil
}
