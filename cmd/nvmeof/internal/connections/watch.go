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

// lookTime limits how long listing the namespaces of a subsystem may take.
const lookTime = 30 * time.Second

// watch handles changes until the holder is closed.
func (h *Holder) watch() {
	for {
		select {
		case <-h.poke:
		case <-h.again.C:
		case <-h.life.Done():
			return
		}
		h.look()
	}
}

// report logs what is new about the controllers.
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

// look updates all subsystems. Each subsystem has a goroutine of its own, since its target may be slow or not answer
// at all.
func (h *Holder) look() {
	h.tidy()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for _, s := range h.subsystems {
		if s.stale = true; !s.looking {
			s.looking = true
			h.looks.Go(func() { // ends when nothing is stale, at the latest in Close
				for h.isStale(s) {
					h.lookAt(h.life, s)
				}
			})
		}
	}
}

// isStale reports whether the namespaces of a subsystem must be listed now, and clears that.
func (h *Holder) isStale(s *subsystem) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.looking = s.stale && !h.closed
	s.stale = false
	return s.looking
}

// tidy removes dead controllers and publishes the remaining disks.
func (h *Holder) tidy() {
	h.report()
	h.updating.Lock()
	defer h.updating.Unlock()
	h.forget()
	h.publish()
}

// lookAt opens the new namespaces of a subsystem and publishes them.
func (h *Holder) lookAt(ctx context.Context, s *subsystem) {
	if s.turn.Acquire(ctx, 1) != nil {
		return // ctx ended while another call lists them
	}
	defer s.turn.Release(1)
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	now, err := s.link.Namespaces(ctx)
	h.updating.Lock()
	defer h.updating.Unlock()
	news, there := h.list(s, now)
	if !there {
		return
	}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			s.lines.Say(fmt.Sprintf("namespaces of %v: %s", s.nqn, line))
		}
	}
	if news || s.unnoted { // before clients find it by its name
		h.remember(s)
	}
	h.publish()
}

// list stores the namespaces of a subsystem if it is still connected, and reports whether one is new.
func (h *Holder) list(s *subsystem, now []Namespace) (news, there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.subsystems, s) {
		return false, false
	}
	news = s.numberAll(now)
	s.namespaces = now
	return news, true
}

// forget removes dead controllers, and subsystems without controllers. Called with updating held.
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
		if len(s.controllers) == 0 && !s.adding {
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
		h.signalIdle()
	}
}

// signalIdle closes the idle channel, unless a controller was connected meanwhile.
func (h *Holder) signalIdle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subsystems) == 0 && !h.isIdle() {
		close(h.idle)
	}
}

// isIdle reports whether there was a controller and there is none now. Called with mu held.
func (h *Holder) isIdle() bool {
	select {
	case <-h.idle:
		return true
	default:
		return false
	}
}

// gone waits until the namespaces of subsystems without controllers are not in use any more. This includes namespaces
// that were removed before.
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
	if h.config.FrontEnd != nil && !closed { // otherwise Close waits for them
		h.config.FrontEnd.Gone(names)
	}
}

// publish passes all current disks to the front end. Called with updating held.
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
