package rbd

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend"
)

// Refresh implements [backend.Resizer]. librbd watches the image and knows its size.
func (s *Store) Refresh() (changed bool, err error) {
	s.change.Lock()
	defer s.change.Unlock()
	if s.isClosed() {
		return false, backend.ErrClosed
	}
	g, err := s.current().look()
	if err != nil {
		return false, fmt.Errorf("image %s: %w", s.name, s.found(err))
	}
	now := *s.info.Load()
	size := g.size &^ (int64(now.BlockSize) - 1)
	if size == now.Size {
		return false, nil
	}
	now.Size = size
	s.info.Store(&now)
	return true, nil
}

// Extend enlarges the image, which Refresh detects. An image that is large enough is unchanged.
func (s *Store) Extend(size int64) error {
	s.change.Lock()
	defer s.change.Unlock()
	if s.isClosed() {
		return backend.ErrClosed
	}
	g, err := s.current().look()
	if err == nil && g.size < size {
		err = s.current().resize(size)
	}
	if err != nil {
		return fmt.Errorf("extend image %s: %w", s.name, s.found(err))
	}
	return nil
}

// Allocated implements [backend.Store]. An object with any data counts as a whole. An image without the feature
// fast-diff counts as a whole, since all of its objects would have to be examined.
func (s *Store) Allocated() (int64, error) {
	s.change.Lock()
	defer s.change.Unlock()
	if s.isClosed() {
		return 0, backend.ErrClosed
	}
	g, err := s.current().look()
	if err != nil {
		return 0, fmt.Errorf("image %s: %w", s.name, s.found(err))
	}
	if g.features&featureFastDiff == 0 {
		return g.size, nil
	}
	n, err := s.current().used(g.size)
	if err != nil {
		return 0, fmt.Errorf("image %s: %w", s.name, s.found(err))
	}
	return min(n, g.size), nil
}

// Failed implements [backend.Latcher].
func (s *Store) Failed() error {
	if f := s.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Clear implements [backend.Latcher]. It opens the image and locks it again, as another client of the cluster unless
// [Config.Client] is set.
func (s *Store) Clear() error {
	s.change.Lock()
	defer s.change.Unlock()
	if s.isClosed() {
		return backend.ErrClosed
	}
	f := s.failure.Load()
	if f == nil {
		return nil
	}
	cfg := s.cfg
	cfg.Size = 0 // a missing image is not created
	var i image
	err := s.anew(func() (err error) {
		i, err = s.dialLocked(&cfg)
		return err
	})
	if err != nil {
		return fmt.Errorf("open image %s again: %w", s.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = append(s.retired, s.current()) // calls may be outstanding
	s.image.Store(&i)
	s.failure.Store(nil)
	return nil
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
