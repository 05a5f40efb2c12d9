package disk

import "golang.org/x/sys/unix"

// ForgetCached lets the kernel forget what its page cache has of a file or device that
// will be used directly. A direct write over a cached page has to take that away first,
// which may block: io_uring then hands every such write to a worker thread. Pages that
// are not on the disk yet stay, and are sent on their way to it. An image that was just
// copied to its place is cached as a whole.
func ForgetCached(fd int) {
	_ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) // advice; without it all works as well
}
