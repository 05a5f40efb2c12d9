package disk

import "golang.org/x/sys/unix"

// ForgetCached asks the kernel to drop a file's or device's pages from the page cache, before direct I/O. A direct
// write must first invalidate cached pages, which may block, so io_uring passes every such write to a worker thread.
// Dirty pages are not dropped, but their write-back is started. For example, an image that was just copied into place
// is cached as a whole.
func ForgetCached(fd int) {
	_ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) // only advice; everything works without it
}
