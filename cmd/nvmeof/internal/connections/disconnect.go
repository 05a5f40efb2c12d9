package connections

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Disconnect disconnects the selected controllers and returns their names. Before a subsystem loses its last
// controller, the requests of its disks' clients are answered, the clients are disconnected, and its namespaces are
// flushed, as far as possible within a few seconds.
func (h *Holder) Disconnect(which func(SubsystemInfo, ControllerInfo) bool) (names []string, err error) {
	chosen, ending := h.choose(which)
	errs := []error{h.takeLeave(ending)}
	failed := make([]error, len(chosen))
	var wait sync.WaitGroup
	for i, c := range chosen {
		wait.Go(func() { // ends in some seconds: the controller may not answer
			if err := c.link.Disconnect(); err != nil {
				failed[i] = fmt.Errorf("%s: %w", c.name(), err)
			}
		})
		names = append(names, c.name())
	}
	wait.Wait()
	h.tidy() // removes them from the holder
	return names, errors.Join(append(errs, failed...)...)
}

// choose returns the selected controllers, and the subsystems that have no other controller. The disks of those
// subsystems are no longer published, unless another controller is added.
func (h *Holder) choose(which func(SubsystemInfo, ControllerInfo) bool) (chosen []*controller, ending []*subsystem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.subsystems {
		info, before := s.info(), len(chosen)
		for i, c := range s.controllers {
			if which(info, info.Controllers[i]) {
				chosen = append(chosen, c)
			}
		}
		stays := func(c *controller) bool {
			return !slices.Contains(chosen[before:], c) && c.link.Status().State != Dead
		}
		if len(chosen) > before && !slices.ContainsFunc(s.controllers, stays) {
			s.ending = true
			ending = append(ending, s)
		}
	}
	return chosen, ending
}

// takeLeave ends the disks of subsystems and makes their writes durable. Failures are also logged.
func (h *Holder) takeLeave(ending []*subsystem) error {
	var disks []string
	h.mu.Lock()
	for _, s := range ending {
		for i := range s.namespaces {
			disks = append(disks, s.namespaceName(s.namespaces[i].ID))
		}
	}
	h.mu.Unlock()
	var front error
	if h.config.FrontEnd != nil {
		front = h.config.FrontEnd.End(disks)
	}
	errs := make([]error, len(ending))
	var wait sync.WaitGroup
	for i, s := range ending {
		h.mu.Lock()
		namespaces, links := slices.Clone(s.namespaces), make([]Controller, 0, len(s.controllers))
		for _, c := range s.controllers {
			links = append(links, c.link)
		}
		h.mu.Unlock()
		wait.Go(func() { // ends after FlushTime
			err := Flush(links, namespaces)
			if err == nil {
				return
			}
			errs[i] = fmt.Errorf("%s: %w", s.name(), err)
			for line := range strings.SplitSeq(err.Error(), "\n") {
				s.lines.Say(s.name() + ": " + line)
			}
		})
	}
	wait.Wait()
	return errors.Join(append(errs, front)...)
}
