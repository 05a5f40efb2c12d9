package rbd

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/internal/librados"
)

// ErrNotBuilt says that this program was built without RBD storage.
var ErrNotBuilt = errors.New("this build has no RBD storage: build with -tags rbd and CGO_ENABLED=1")

// A LibraryError says that the libraries of Ceph on this machine cannot be used.
type LibraryError struct {
	Detail string // the error of dlopen(3)
}

func (e *LibraryError) Error() string {
	return "the libraries of Ceph cannot be loaded: " + e.Detail +
		": install them (Debian and Ubuntu: librbd1 librados2; Fedora: librbd1 librados2)"
}

// A LockedError says that another client has the exclusive lock of an image.
type LockedError struct {
	Image string
	Owner string // as Ceph reports it; "" if unknown
}

func (e *LockedError) Error() string {
	who := "another client"
	if e.Owner != "" {
		who = "client " + e.Owner
	}
	return fmt.Sprintf("image %s is in use by %s, which has its exclusive lock: stop that client first, or use another image (rbd lock ls %[1]s shows it)", e.Image, who)
}

// A HungError says that an operation did not end because the cluster did not answer.
type HungError struct {
	Image string
	For   time.Duration
}

func (e *HungError) Error() string {
	return fmt.Sprintf("close %s: the cluster has not answered for %v: see ceph -s; requests in progress end when it answers", e.Image, e.For)
}

// blocklisted is the cluster's error EBLOCKLISTED.
const blocklisted = librados.Blocklisted

// lost reports whether an error says that the client may no longer write: it is blocklisted, or another client has its
// lock.
func lost(errno unix.Errno) bool { return errno == blocklisted || errno == unix.EROFS }

// resultOf returns the error of a request whose call failed.
func resultOf(name string, op backend.Op, errno unix.Errno) error {
	switch {
	case errno == unix.EINVAL: // everything else that the library checks was checked before
		return backend.ErrOutOfRange
	case errno == unix.EILSEQ && op == backend.OpCompareAndWrite:
		return backend.ErrMiscompare
	case errno == unix.ENOSPC || errno == unix.EDQUOT:
		return backend.ErrNoSpace
	}
	return fmt.Errorf("%v of image %s: %w", op, name, errno)
}
