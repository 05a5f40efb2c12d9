package rbd

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// dialLocked opens the image and locks it, unless it is read-only.
func (s *Store) dialLocked(cfg *Config) (image, error) {
	i, err := s.dialImage(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.acquire(i); err != nil {
		if errors.Is(err, blocklisted) {
			refuse(i)
		}
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

// acquire waits for a lock whose owner may be gone. A read-only image needs no lock.
func (s *Store) acquire(i image) error {
	if s.cfg.readOnly(&s.name) {
		return nil
	}
	g, err := i.look()
	if err != nil {
		return err
	}
	if g.features&featureExclusiveLock == 0 {
		return fmt.Errorf("the image lacks the feature exclusive-lock, which keeps other clients from writing to it: rbd feature enable %s exclusive-lock", s.name)
	}
	s.succeed(i)
	for end := time.Now().Add(s.lockTime); ; time.Sleep(s.lockTime / 40) {
		err := i.lock()
		if err == nil || !taken(err) {
			return err
		}
		if !time.Now().Before(end) {
			owner, _ := i.owner()
			return &LockedError{Image: s.name.String(), Owner: owner}
		}
	}
}

// succeed breaks the lock of an owner that this client has fenced. The library would do so too, after fencing the owner
// once more, with a new map of the cluster for each image. That takes more than a second per image, and a gateway that
// was killed can have had hundreds.
func (s *Store) succeed(i image) {
	if s.cfg.Client != nil {
		_ = i.succeed(s.cfg.Client.hasFenced) // after a failure the library does it
	}
}

// taken reports whether an error says that another client has the lock.
func taken(err error) bool {
	return errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EROFS)
}
