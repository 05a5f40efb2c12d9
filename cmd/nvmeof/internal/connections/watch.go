package connections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// changed wakes watch.
func (h *Holder) changed() {
	select {
	case h.poke <- struct{}{}:
	default:
	}
}

// lookTime bounds how long the namespaces of a controller are looked at.
const lookTime = 30 * time.Second

// watch follows changes until the holder is closed.
func (h *Holder) watch() {
	for {
		select {
		case <-h.poke:
		case <-h.again.C:
		case <-h.ended:
			return
		}
		h.report()
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		h.connecting.Lock()
		h.look(ctx)
		h.connecting.Unlock()
		cancel()
	}
}

// report logs what is new of the controllers.
func (h *Holder) report() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.subsystems {
		for _, c := range s.controllers {
			if line := c.news.Line(c.name(), c.link.Status()); line != "" {
				s.lines.Say(line)
			}
		}
	}
}

// look brings everything up to date: forgets controllers that are dead, opens the
// namespaces that are new, and publishes them. Under connecting.
func (h *Holder) look(ctx context.Context) {
	h.report()
	h.forget()
	h.mu.Lock()
	all := slices.Clone(h.subsystems)
	h.mu.Unlock()
	for _, s := range all {
		now, err := s.link.Namespaces(ctx)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				s.lines.Say(fmt.Sprintf("namespaces of %v: %s", s.nqn, line))
			}
		}
		h.mu.Lock()
		news := s.numberAll(now)
		s.namespaces = now
		h.mu.Unlock()
		if news || s.unnoted { // before somebody finds it by its name
			h.remember(s)
		}
	}
	h.publish()
}

// forget drops controllers that are dead, and subsystems without any.
func (h *Holder) forget() {
	h.mu.Lock()
	var gone []*controller
	var dead []Controller // given up
	var empty []*subsystem
	for _, s := range h.subsystems {
		for _, c := range slices.Clone(s.controllers) {
			st := c.link.Status()
			if st.State != Dead {
				continue
			}
			h.config.Ended(c.name(), st.Err)
			if st.Err != nil {
				h.lost = fmt.Errorf("%s: %w", c.name(), st.Err)
				h.reasons[c.name()] = st.Err.Error()
				dead = append(dead, c.link)
			}
			s.controllers = slices.DeleteFunc(s.controllers, func(o *controller) bool { return o == c })
			if c.claim != s.claim {
				gone = append(gone, c)
			}
		}
		if len(s.controllers) == 0 {
			empty = append(empty, s)
		}
	}
	h.subsystems = slices.DeleteFunc(h.subsystems, func(s *subsystem) bool { return slices.Contains(empty, s) })
	idle := len(empty) > 0 && len(h.subsystems) == 0
	h.mu.Unlock()
	if len(empty) > 0 {
		h.publish()
		h.gone(empty) // nobody may use their memory any more
	}
	var errs []error
	for _, l := range dead {
		errs = append(errs, l.Disconnect())
	}
	for _, s := range empty {
		errs = append(errs, s.link.Close(), s.claim.release())
	}
	for _, c := range gone {
		errs = append(errs, c.claim.release())
	}
	if err := errors.Join(errs...); err != nil {
		h.config.Log(err.Error())
	}
	if idle {
		h.beIdle()
	}
}

// beIdle says that there is no controller any more, unless one has come meanwhile.
func (h *Holder) beIdle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subsystems) == 0 && !h.isIdle() {
		close(h.idle)
	}
}

// isIdle reports whether there was a controller and there is none. Under mu.
func (h *Holder) isIdle() bool {
	select {
	case <-h.idle:
		return true
	default:
		return false
	}
}

// gone waits until nobody uses the namespaces of subsystems that have none of their
// controllers any more, also those that were removed before: they may be in use.
func (h *Holder) gone(empty []*subsystem) {
	var names []string
	h.mu.Lock()
	for _, s := range empty {
		for number := range s.disks {
			names = append(names, s.diskName(number))
		}
	}
	closed := h.closed
	h.mu.Unlock()
	if h.config.FrontEnd != nil && !closed { // or Close waits for them
		h.config.FrontEnd.Gone(names)
	}
}

// publish hands the front end all disks there are.
func (h *Holder) publish() {
	h.mu.Lock()
	var disks []Disk
	for _, s := range h.subsystems {
		if s.ending {
			continue
		}
		for i := range s.namespaces {
			if s.isNoted(s.namespaces[i].ID) {
				disks = append(disks, Disk{s.disk(&s.namespaces[i]), s.lines.Say})
			}
		}
	}
	closed := h.closed
	h.mu.Unlock()
	if h.config.FrontEnd != nil && !closed {
		h.config.FrontEnd.Publish(disks)
	}
}
