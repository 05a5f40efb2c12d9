package block

import (
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/drive"
)

// Health implements [backend.HealthReporter]. Call it seldom: each call opens the
// drive anew, which udev(7) notices.
func (s *Store) Health() (backend.Health, error) {
	var st unix.Stat_t
	err := s.Stat(func(fd int) error { return unix.Fstat(fd, &st) })
	if err != nil {
		return backend.Health{}, err
	}
	return drive.Health(st.Rdev) // not under the store's lock, since it may take long
}
