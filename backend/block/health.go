package block

import (
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/drive"
)

// Health implements [backend.HealthReporter]. Call it rarely: each call opens the drive again, which triggers udev(7).
func (s *Store) Health() (backend.Health, error) {
	var st unix.Stat_t
	err := s.Stat(func(fd int) error { return unix.Fstat(fd, &st) })
	if err != nil {
		return backend.Health{}, err
	}
	return drive.Health(st.Rdev) // not under the store's lock, since it may take long
}

// HealthNode returns the device node that [Store.Health] opens for a block device, or "" if there is none.
func HealthNode(path string) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return ""
	}
	return drive.Node(st.Rdev)
}
