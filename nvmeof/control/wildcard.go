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

// scanInterval is how often a wildcard checks for new addresses.
const scanInterval = 2 * time.Second

// lastPort is the highest identifier of a listener.
const lastPort = 65535

// A wildcard is a listener of the document on 0.0.0.0 or [::]. It serves every address of that family that other
// machines reach, including later ones. Each address is a listener of the target with an identifier of its own, by
// which hosts and the target distinguish paths. An address that disappears is kept as long as its listener works.
// The Manager's mutex guards it.
type wildcard struct {
	ports  map[netip.AddrPort]int // identifiers; an address that reappears has the same one
	since  time.Time
	cancel context.CancelFunc
}

// listenEverywhere adds a wildcard listener. The caller holds mu.
func (m *Manager) listenEverywhere(l *config.Listener) {
	ctx, cancel := context.WithCancel(m.context)
	w := &wildcard{ports: map[netip.AddrPort]int{}, since: time.Now(), cancel: cancel}
	m.wildcards[l.ID] = w
	addrs, err := m.cfg.Addresses()
	m.follow(w, l, addrs, err)
	if len(w.ports) == 0 {
		m.log.Warn("no address to listen at yet; waiting for one", zap.Int("listener", l.ID), zap.Stringer("address", l.Address))
	}
	m.tasks.Go(func() { // ends with the listener, or at Close
		tick := time.NewTicker(scanInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				m.scanAddresses(ctx, l.ID)
			}
		}
	})
}

// scanAddresses checks the machine's addresses once.
func (m *Manager) scanAddresses(ctx context.Context, id int) {
	addrs, failed := m.cfg.Addresses()
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	l, err := listeners(m.doc).find(itoa(id)) // with the present ANA states
	if err == nil {
		m.follow(m.wildcards[id], l, addrs, failed)
		err = m.sweepDevices()
	}
	if err != nil {
		m.log.Warn("closing an unused device failed", zap.Error(err))
	}
}

// followAll makes wildcards listen again at addresses that they gave up for a listener of a failed change. The
// caller holds mu.
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

// follow listens at new addresses. If that fails, it retries, as for other listeners, until the address disappears.
// The caller holds mu.
func (m *Manager) follow(w *wildcard, l *config.Listener, addrs []netip.Addr, failed error) {
	if failed != nil { // some addresses may be missing
		m.log.Warn("listing the machine's addresses failed", zap.Error(failed))
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

// listensAt reports whether a listener has an address, or waits for it.
func (m *Manager) listensAt(at netip.AddrPort) bool {
	for _, l := range m.listeners {
		if l.addr == at {
			return true
		}
	}
	return false
}

// port returns the identifier of an address of a wildcard. The first address has that of the wildcard, the others
// have the highest ones that the document does not use.
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

// portsOf returns the identifiers in the target of listeners of the document; nil means all.
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

// expose updates the subsystems of a wildcard whose addresses have changed. The caller holds mu.
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

// listenerOf returns the identifier of the document's listener to which a listener of the target belongs.
func (m *Manager) listenerOf(port target.PortID) int {
	if parts := m.parts.Load(); parts != nil {
		if of, is := (*parts)[int(port)]; is {
			return of
		}
	}
	return int(port)
}

// makeRoom ends listeners of wildcards that have the address or the identifier of a listener of the document that
// is to be added.
func (m *Manager) makeRoom(l *config.Listener) {
	for port, x := range m.listeners {
		if w := m.wildcards[x.of]; w != nil && (port == l.ID || x.addr == l.Address.AddrPort) {
			m.end(port)
			delete(w.ports, x.addr)
			m.expose(x.of)
		}
	}
}

// unlistenEverywhere removes a wildcard listener.
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

// MachineAddresses returns the addresses of interfaces that are up by which other machines can reach this one
// without more information. It leaves out loopback addresses, and link-local ones, which need a zone. If it returns
// an error, some may be missing.
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
