package control

import (
	"errors"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
)

// failures returns why stores accept no writes, by key.
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

// failureOf returns why a store accepts no writes, or "".
func failureOf(h *heldStore) string {
	l, ok := h.store.(backend.Failer)
	if !ok {
		return ""
	}
	err := l.Failed()
	if err == nil {
		return ""
	}
	if why := errors.Unwrap(err); why != nil { // remove the name, which the next store adds again
		err = why
	}
	return err.Error()
}

// failAgain makes a store fail as it did before it was opened, in another process or with other options. Data that
// was acknowledged then may be lost, so an administrator has to clear the failure.
func (s *stores) failAgain(key storeKey, h *heldStore) {
	why := s.failed[key]
	if why == "" {
		return
	}
	delete(s.failed, key)
	path := zap.String("export", string(h.as.Path()))
	l, ok := h.store.(backend.Failer)
	if !ok {
		s.log.Error("a store failed before it was opened again, but cannot be made to refuse writes", path, zap.String("why", why))
		return
	}
	l.Fail(errors.New(why))
	s.log.Warn("a store failed before it was opened again, and refuses writes until the fault is cleared", path, zap.String("why", why))
}
