package rbd

import "fmt"

// An Ahead is an image that was opened before its owner gave it up. It has no lock and takes no I/O. Call either Open
// or Close, once.
type Ahead struct {
	store *Store
	image image
}

// OpenAhead opens the named image with cfg.Client, so that little remains to be done once its owner has given it up. It
// neither creates nor extends the image; [Ahead.Open] does.
func OpenAhead(name string, cfg Config) (*Ahead, error) {
	s, err := newStore(name, cfg)
	if err != nil {
		return nil, err
	}
	return openAhead(s)
}

func openAhead(s *Store) (*Ahead, error) {
	if s.cfg.Client == nil {
		return nil, fmt.Errorf("open image %s in advance: Config.Client is missing", s.name)
	}
	cfg := s.cfg
	cfg.Size = 0
	i, err := s.dialImage(&cfg)
	if err != nil {
		return nil, fmt.Errorf("open image %s in advance: %w", s.name, err)
	}
	return &Ahead{s, i}, nil
}

// Open acquires the image's lock and returns a store, as the function Open would for the same name and configuration.
func (a *Ahead) Open() (*Store, error) {
	if err := a.store.take(a.image); err != nil {
		return nil, fmt.Errorf("open image %s: %w", a.store.name, err)
	}
	return a.store, nil
}

// Close closes an image that is not needed after all. It waits for the cluster.
func (a *Ahead) Close() error {
	if err := a.image.close(); err != nil {
		return fmt.Errorf("close image %s: %w", a.store.name, err)
	}
	return nil
}
