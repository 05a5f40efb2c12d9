package file

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// Probe returns the Info of the store that Open would return, even while another process has the file open. It neither
// locks, changes nor creates the file.
func Probe(path string, cfg Config) (backend.Info, error) {
	if err := cfg.check(); err != nil {
		return backend.Info{}, fmt.Errorf("look at %s: %w", path, err)
	}
	s := &Store{path: path, cfg: cfg}
	s.cfg.Size, s.cfg.ReadOnly = 0, true
	if _, err := s.openFile(); err != nil {
		return backend.Info{}, fmt.Errorf("look at store: %w", err)
	}
	s.cfg = cfg
	info, err := s.look()
	if err = errors.Join(err, unix.Close(s.fd)); err != nil {
		return backend.Info{}, fmt.Errorf("look at %s: %w", path, err)
	}
	return info, nil
}

func (s *Store) look() (backend.Info, error) {
	if err := s.confirm(); err != nil {
		return backend.Info{}, err
	}
	info, err := s.info(s.setDirect())
	info.Size = max(info.Size, s.cfg.Size) // Open would extend it
	return info, err
}
