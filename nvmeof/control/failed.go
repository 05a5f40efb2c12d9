package control

import (
	"errors"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
)

// failures are why stores take no writes, by their keys.
func (s *stores) failures() map[string]string {
	all := map[string]string{}
	for key, why := range s.failed {
		all[string(key)] = why
	}
	for key, h := range s.held {
		if why := failureOf(h); why != "" {
			all[string(key)] = why
		}
	}
	return all
}

// failureOf is why a store takes no writes; empty: it does.
func failureOf(h *heldStore) string {
	l, ok := h.store.(backend.Failer)
	if !ok {
		return ""
	}
	err := l.Failed()
	if err == nil {
		return ""
	}
	if why := errors.Unwrap(err); why != nil { // without the name, which the next one adds
		err = why
	}
	return err.Error()
}

// failAgain has a store that was opened fail as it has before, in another process or with other options: what
// was acknowledged then may be lost, and an administrator decides when that is mended.
func (s *stores) failAgain(key storeKey, h *heldStore) {
	why := s.failed[key]
	if why == "" {
		return
	}
	delete(s.failed, key)
	path := zap.String("export", string(h.as.Path()))
	l, ok := h.store.(backend.Failer)
	if !ok {
		s.log.Error("a store has failed before it was opened again, and does not know it", path, zap.String("why", why))
		return
	}
	l.Fail(errors.New(why))
	s.log.Warn("a store has failed before it was opened again, and takes no writes until that is cleared", path, zap.String("why", why))
}
