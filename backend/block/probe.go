package block

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// Probe returns the Info of the store that Open would return, even while another process uses the device.
func Probe(path string, cfg Config) (backend.Info, error) {
	if err := cfg.check(); err != nil {
		return backend.Info{}, fmt.Errorf("look at %s: %w", path, err)
	}
	s := &Store{path: path, cfg: cfg}
	s.cfg.ReadOnly, s.cfg.Buffered, s.cfg.Force = true, true, true // nothing is written, cached or locked
	if err := s.openDevice(); err != nil {
		return backend.Info{}, fmt.Errorf("look at store: %w", err)
	}
	info, err := probe(s.fd, &cfg)
	if err = errors.Join(err, unix.Close(s.fd)); err != nil {
		return backend.Info{}, fmt.Errorf("look at %s: %w", path, err)
	}
	return info, nil
}

func probe(fd int, cfg *Config) (backend.Info, error) {
	g, err := measure(fd)
	if err != nil {
		return backend.Info{}, err
	}
	return g.info(cfg)
}
