package control

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// scanInterval is how often a wildcard looks for addresses that have come.
const scanInterval = 2 * time.Second

// lastPort is the highest identifier of a listener.
const lastPort = 65535

// A wildcard is a listener of the document on 0.0.0.0 or [::]: every address of that family
// that other machines reach, as they come. Each of them is a listener of the target with an
// identifier of its own, by which hosts and the target distinguish paths. An address that goes
// away stays as long as its listener works. It belongs to the Manager's mutex.
type wildcard struct {
	ports  map[netip.AddrPort]int // identifiers; an address that comes back has the one that it had
	since  time.Time
	cancel context.CancelFunc
}

// listenEverywhere adds a listener on a wildcard. Called with mu held.
func (m *Manager) listenEverywhere(l *config.Listener) {
	ctx, cancel := context.WithCancel(m.context)
	w := &wildcard{ports: map[netip.AddrPort]int{}, since: time.Now(), cancel: cancel}
	m.wildcards[l.ID] = w
	addrs, err := m.cfg.Addresses()
	m.follow(w, l, addrs, err)
	if len(w.ports) == 0 {
		m.log.Warn("no address to serve at yet: waiting for one", zap.Int("listener", l.ID), zap.Stringer("address", l.Address))
	}
	m.tasks.Go(func() { // ends with the listener, or at Close
		tick := time.NewTicker(scanInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				m.look(ctx, l.ID)
			}
		}
	})
}

// look is the next look at the machine's addresses.
func (m *Manager) look(ctx context.Context, id int) {
	addrs, failed := m.cfg.Addresses()
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	l, err := listeners(m.doc).find(itoa(id)) // with the ANA states of now
	if err == nil {
		m.follow(m.wildcards[id], l, addrs, failed)
		err = m.sweepDevices()
	}
	if err != nil {
		m.log.Warn("closing a device that is not used after all", zap.Error(err))
	}
}

// followAll has wildcards listen again where a change that failed made room for a listener.
// Called with mu held.
func (m *Manager) followAll() {
	if len(m.wildcards) == 0 {
		return
	}
	addrs, failed := m.cfg.Addresses()
	for id, w := range m.wildcards {
		if l, err := listeners(m.doc).find(itoa(id)); err == nil {
			m.follow(w, l, addrs, failed)
		}
	}
}

// follow begins to listen at addresses that are new; one at which that fails is waited for
// as every listener is, until the address goes away. Called with mu held.
func (m *Manager) follow(w *wildcard, l *config.Listener, addrs []netip.Addr, failed error) {
	if failed != nil { // some may be missing
		m.log.Warn("looking for addresses failed", zap.Error(failed))
	}
	for _, a := range addrs {
		at := netip.AddrPortFrom(a, l.Address.Port())
		if a.Is4() != l.Address.Addr().Is4() || m.listensAt(at) || m.cfg.Serves != nil && !m.cfg.Serves(a, l.Transport) {
			continue
		}
		one := *l
		one.ID, one.Address = m.port(w, l.ID, at), config.Address{AddrPort: at}
		if err := m.tryListen(&one, l.ID); err != nil {
			m.awaitDevice(one.ID, l.ID, at, err)
		}
	}
	for port, x := range m.listeners {
		if x.of == l.ID && x.listener == nil && failed == nil && !slices.Contains(addrs, x.addr.Addr()) {
			x.cancel()
			delete(m.listeners, port)
		}
	}
}

// listensAt reports whether there is a listener at an address, or one that waits for it.
func (m *Manager) listensAt(at netip.AddrPort) bool {
	for _, l := range m.listeners {
		if l.addr == at {
			return true
		}
	}
	return false
}

// port is the identifier of an address of a wildcard: the first address has that of the
// wildcard, the others have the highest that the document leaves.
func (m *Manager) port(w *wildcard, id int, at netip.AddrPort) int {
	if p, known := w.ports[at]; known {
		return p
	}
	used := maps.Clone(m.named)
	for _, other := range m.wildcards {
		for _, p := range other.ports {
			used[p] = true
		}
	}
	p := id
	if slices.Contains(slices.Collect(maps.Values(w.ports)), id) {
		for p = lastPort; used[p]; p-- {
		}
	}
	w.ports[at] = p
	m.expose(id)
	return p
}

// portsOf are the identifiers in the target of listeners of the document; nil is all.
func (m *Manager) portsOf(ids []int) (ports []target.PortID) {
	for _, id := range ids {
		ports = append(ports, target.PortID(id))
		if w := m.wildcards[id]; w != nil {
			for _, p := range w.ports {
				ports = append(ports, target.PortID(p))
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// expose notes that the addresses of a wildcard are others: subsystems that are on it are on
// those. Called with mu held.
func (m *Manager) expose(id int) {
	parts := map[int]int{}
	for of, w := range m.wildcards {
		for _, p := range w.ports {
			parts[p] = of
		}
	}
	m.parts.Store(&parts)
	for nqn, ids := range m.exposed {
		if s, err := m.subsystem(nqn); err == nil && slices.Contains(ids, id) {
			s.SetPorts(m.portsOf(ids))
		}
	}
}

// listenerOf is the listener of the document to which one of the target belongs.
func (m *Manager) listenerOf(port target.PortID) int {
	if parts := m.parts.Load(); parts != nil {
		if of, is := (*parts)[int(port)]; is {
			return of
		}
	}
	return int(port)
}

// makeRoom ends listeners of wildcards that are where a listener of the document is to be, or
// have its identifier.
func (m *Manager) makeRoom(l *config.Listener) {
	for port, x := range m.listeners {
		if w := m.wildcards[x.of]; w != nil && (port == l.ID || x.addr == l.Address.AddrPort) {
			m.end(port)
			delete(w.ports, x.addr)
			m.expose(x.of)
		}
	}
}

// unlistenEverywhere removes a listener on a wildcard.
func (m *Manager) unlistenEverywhere(id int) {
	m.wildcards[id].cancel()
	delete(m.wildcards, id)
	for port, x := range m.listeners {
		if x.of == id {
			m.end(port)
		}
	}
	m.expose(id)
}

// MachineAddresses are those of the interfaces that are up by which other machines can reach
// this one with nothing but the address: not the loopback's, not link-local ones, which need
// a zone. Some may be missing where there is an error.
func MachineAddresses() (all []netip.Addr, err error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		errs = append(errs, err)
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if a := p.Addr().Unmap(); err == nil && a.IsGlobalUnicast() {
				all = append(all, a)
			}
		}
	}
	return all, errors.Join(errs...)
}
