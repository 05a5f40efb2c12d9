package block

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
	"github.com/nvmeof-go/nvmeof/backend/internal/inuse"
)

// served does the I/O.
type served = disk.Disk

// Store implements [backend.Store], [backend.Resizer],
// [backend.Latcher] and [backend.HealthReporter] on a block device.
type Store struct {
	*served

	path  string
	cfg   Config
	fd    int
	notes []string
}

// An InUseError says that another program uses a device.
type InUseError = inuse.Error

// Open opens the device at path.
func Open(path string, cfg Config) (*Store, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s := &Store{path: path, cfg: cfg}
	if err := s.openDevice(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := s.prepare(); err != nil {
		inuse.Unlock(s.fd)
		_ = unix.Close(s.fd)
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return s, nil
}

// lingering is how long the kernel may keep a device open after the end of a process that had it open: the process's
// io_uring, which also keeps it open, ends some time later.
const lingering = 2 * time.Second

func (s *Store) openDevice() error {
	// Before opening, since opening a tape or a FIFO may have side effects.
	info, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	if mode := info.Mode(); mode&fs.ModeDevice == 0 || mode&fs.ModeCharDevice != 0 {
		return fmt.Errorf("%s is not a block device", s.path)
	}
	flags := unix.O_RDWR | unix.O_CLOEXEC
	if s.cfg.ReadOnly {
		flags = unix.O_RDONLY | unix.O_CLOEXEC
	}
	if !s.cfg.Buffered {
		flags |= unix.O_DIRECT
	}
	if !s.cfg.Force {
		flags |= unix.O_EXCL
	}
	for end := time.Now().Add(lingering); ; time.Sleep(50 * time.Millisecond) {
		s.fd, err = unix.Open(s.path, flags, 0)
		switch {
		case err == nil:
			if !s.cfg.Buffered {
				disk.ForgetCached(s.fd)
			}
			return nil
		case err == unix.EINTR:
			continue
		case err != unix.EBUSY:
			return s.refusal(err)
		}
		if busy := inuse.Device(s.path); busy.Mend != "" || time.Now().After(end) {
			return busy
		}
	}
}

// refusal explains why the kernel did not open the device.
func (s *Store) refusal(err error) error {
	path := &fs.PathError{Op: "open", Path: s.path, Err: err}
	switch err {
	case unix.EACCES, unix.EPERM, unix.EROFS:
		if isReadOnly(s.path) && !s.cfg.ReadOnly {
			return fmt.Errorf("%w: the device is read-only: export it read-only (ro), or allow writing: blockdev --setrw %s", path, s.path)
		}
		return fmt.Errorf("%w: run as root, or as a member of the group that owns the device", path)
	case unix.ENXIO, unix.ENODEV, unix.ENOMEDIUM:
		return fmt.Errorf("%w: the device does not exist or has no medium", path)
	}
	return path
}

// prepare initializes the store from the open device.
func (s *Store) prepare() error {
	if err := s.alone(); err != nil {
		return err
	}
	g, err := measure(s.fd)
	if err != nil {
		return err
	}
	info, err := g.info(&s.cfg)
	if err != nil {
		return err
	}
	if left := g.size - info.Size; left > 0 {
		s.notes = append(s.notes, fmt.Sprintf("the last %d bytes of the device are less than a block and are not served", left))
	}
	s.served, err = disk.New(disk.Config{
		Options: s.cfg.Options, Name: s.path, FD: s.fd, Info: info, Device: true, Direct: !s.cfg.Buffered,
		Measure: func() (int64, error) { return sizeOf(s.fd) },
		Release: func() error {
			inuse.Unlock(s.fd)
			return unix.Close(s.fd)
		},
	})
	return err
}

// alone looks for programs that use the device without having opened it exclusively.
func (s *Store) alone() error {
	var busy *inuse.Error
	err := inuse.Lock(s.fd, s.path, s.cfg.ReadOnly)
	if err != nil && !errors.As(err, &busy) {
		return err
	}
	switch {
	case s.cfg.Force:
		if busy == nil {
			busy = inuse.Beneath(s.path, s.cfg.ReadOnly)
		}
		if busy == nil {
			busy = inuse.Device(s.path)
		}
		if busy.User != "" {
			s.notes = append(s.notes, busy.Note())
		}
		return nil
	case busy == nil:
		busy = inuse.Exported(s.path)
	}
	if busy == nil {
		busy = inuse.Beneath(s.path, s.cfg.ReadOnly)
	}
	if busy != nil {
		return busy
	}
	return nil
}

// Notes returns sentences for an administrator about what is not as configured, and why. They have no initial capital
// and no full stop.
func (s *Store) Notes() []string { return append(s.EngineNotes(), s.notes...) }

// EngineNotes returns those of Notes that concern how the machine does the I/O. They do not concern what is exported.
func (s *Store) EngineNotes() []string { return s.served.Notes() }

// Allocated returns the size of the device: the device does not report what it uses.
func (s *Store) Allocated() (n int64, err error) {
	err = s.Stat(func(int) error {
		n = s.Info().Size
		return nil
	})
	return n, err
}

// sizeOf returns the device's size in bytes, or ErrGone if the device is gone.
func sizeOf(fd int) (int64, error) {
	size, err := ioctlUint64(fd, unix.BLKGETSIZE64)
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO), err == nil && size == 0:
		return 0, disk.ErrGone
	case err != nil:
		return 0, fmt.Errorf("BLKGETSIZE64: %w", err)
	}
	return int64(size), nil
}
