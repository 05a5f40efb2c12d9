package control

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A heldDevice is an RDMA device that listeners have. It belongs to the Manager's
// mutex. One without listeners is kept until the change that took the last is complete.
type heldDevice struct {
	name      string
	rdma      rdmatransport.Device
	target    *target.Device
	listeners int
}

// A listening is a listener of the document, or an address of one that is a wildcard. It
// belongs to the Manager's mutex.
type listening struct {
	of       int              // the identifier in the document
	listener *target.Listener // nil: it waits for its device
	device   *heldDevice
	addr     netip.AddrPort

	why    string // it waits
	since  time.Time
	cancel context.CancelFunc
}

// deviceName names the device of a listener.
func (m *Manager) deviceName(l *config.Listener) string {
	if m.cfg.DeviceName == nil {
		return l.Address.Addr().String()
	}
	return m.cfg.DeviceName(l.Address.Addr(), l.Transport)
}

// away reports whether an error says that a device or its address is not there now, or hangs.
func (m *Manager) away(err error) bool {
	return errors.As(err, new(*LeavingError)) || errors.As(err, new(*HungError)) || absent(err) || errors.Is(err, rdmatransport.ErrDeviceLost) || m.cfg.Away != nil && m.cfg.Away(err)
}

// device opens the device of a listener, unless it is open.
func (m *Manager) device(l *config.Listener) (*heldDevice, error) {
	if m.cfg.Device == nil {
		return nil, errors.New("control: Config.Device is missing")
	}
	name := m.deviceName(l)
	if d := m.devices[name]; d != nil {
		return d, nil
	}
	if d := m.closings[name]; d != nil {
		return nil, &LeavingError{"device " + name, d.target.Unfinished()}
	}
	addr, transport := l.Address.Addr(), l.Transport
	dev, err := reachFor(&m.stores.reacher, m.startTimeout, config.Path("device "+name), func() (rdmatransport.Device, error) {
		return m.cfg.Device(addr, transport)
	}, func(dev rdmatransport.Device) { // the next attempt has it
		if err := dev.Close(); err != nil {
			m.log.Warn("closing a device that took too long to open", zap.String("device", name), zap.Error(err))
		}
	})
	if err != nil {
		return nil, err
	}
	d, err := m.target.AddDevice(dev)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	m.devices[name] = &heldDevice{name: name, rdma: dev, target: d}
	m.gauge.setDevices(m.devices)
	return m.devices[name], nil
}

func (m *Manager) closing(d *heldDevice) {
	if m.cfg.Closing != nil {
		m.cfg.Closing(d.rdma)
	}
}

// closeDevice ends what goes through a device that was taken out, and closes it. Called
// with mu held.
func (m *Manager) closeDevice(d *heldDevice) error {
	m.closing(d)
	m.closings[d.name] = d
	l := &leaving{what: "device " + d.name, unfinished: d.target.Unfinished}
	return m.remove(l, func() error {
		return errors.Join(d.target.Remove("no listener needs its device any more"), d.rdma.Close())
	},
		func() { delete(m.closings, d.name) })
}

// sweepDevices closes those without listeners.
func (m *Manager) sweepDevices() (err error) {
	for name, d := range m.devices {
		if d.listeners == 0 {
			delete(m.devices, name)
			m.gauge.setDevices(m.devices)
			err = errors.Join(err, m.closeDevice(d))
		}
	}
	return err
}

// listen adds a listener, or waits for its device if that is what the options say.
func (m *Manager) listen(l *config.Listener, o Options) error {
	if l.Wildcard() {
		m.makeRoom(l)
		m.listenEverywhere(l)
		return nil
	}
	waits := func(err error) bool {
		return o.Wait && m.away(err) || o.WaitDevice && m.cfg.Away != nil && m.cfg.Away(err)
	}
	_, err := m.device(l)
	if err != nil && !waits(err) {
		return err // before hosts of a wildcard's address lose it in vain
	}
	m.makeRoom(l)
	if err == nil {
		err = m.tryListen(l, l.ID)
	}
	if err != nil && waits(err) {
		m.awaitDevice(l.ID, l.ID, l.Address.AddrPort, err)
		return nil
	}
	return err
}

// tryListen adds a listener to the target, which is the one of that identifier of the
// document or one of its addresses.
func (m *Manager) tryListen(l *config.Listener, of int) error {
	d, err := m.device(l)
	if err != nil {
		return err
	}
	t, err := d.target.Listen(target.ListenerConfig{ID: target.PortID(l.ID), Addr: l.Address.AddrPort, ANA: anaTable(l)})
	if err != nil {
		return err // a device that is not needed is swept
	}
	d.listeners++
	m.listeners[l.ID] = &listening{of: of, listener: t, device: d, addr: l.Address.AddrPort}
	if m.cfg.Listening != nil {
		m.cfg.Listening(of, t.Addr())
	}
	m.watchers.Go(func() { // ends with the listener
		if err := t.Err(); errors.Is(err, rdmatransport.ErrDeviceLost) {
			m.lose(d, err)
		}
	})
	return nil
}

// lose takes a device away that is lost; its listeners wait for it.
func (m *Manager) lose(d *heldDevice, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.devices[d.name] != d { // all listeners of a device end together
		return
	}
	note(m, events.Listener, events.Error, events.Event{}, "device "+d.name+" is lost: "+why.Error())
	m.log.Warn("device is lost, waiting for it", zap.String("device", d.name), zap.Error(why))
	delete(m.devices, d.name)
	m.gauge.setDevices(m.devices)
	if err := m.closeDevice(d); err != nil {
		m.log.Warn("closing a device that is lost", zap.String("device", d.name), zap.Error(err))
	}
	for id, l := range m.listeners {
		if l.device == d {
			m.awaitDevice(id, l.of, l.addr, why)
		}
	}
}

// awaitDevice tries again and again to add a listener. Called with mu held.
func (m *Manager) awaitDevice(id, of int, at netip.AddrPort, why error) {
	ctx, cancel := context.WithCancel(m.context)
	l := &listening{of: of, addr: at, why: why.Error(), since: time.Now(), cancel: cancel}
	m.listeners[id] = l
	note(m, events.Listener, events.Warning, events.Event{Address: at.String()}, "listener waits for its address: "+why.Error())
	m.log.Warn("listener waits for its address", zap.Int("listener", of), zap.Stringer("address", at), zap.Error(why),
		zap.String("remedy", "give the address to an interface, or plug the device in; or nvmeof listener remove"))
	m.tasks.Go(func() { // ends when the listener is there or is removed, or at Close
		backoff(ctx, m.firstWait, longListen, func() bool { return m.listenAgain(ctx, id, l) })
	})
}

// awaitListener waits for the listener that a step could not add, whatever is wrong with it, and
// reports whether the step is such a one: others may be served. Called with mu held.
func awaitListener(m *Manager, c config.Change, why error) bool {
	l, ok := c.New.(*config.Listener)
	if !ok || c.Op != config.Add || l.Wildcard() {
		return false
	}
	m.awaitDevice(l.ID, l.ID, l.Address.AddrPort, why)
	return true
}

// listens reports whether hosts can connect somewhere, or will be able to as addresses come. Called
// with mu held.
func listens(m *Manager) bool {
	for _, l := range m.listeners {
		if l.listener != nil {
			return true
		}
	}
	return len(m.wildcards) > 0
}

// listenAgain reports whether the waiting is over.
func (m *Manager) listenAgain(ctx context.Context, id int, w *listening) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil || m.listeners[id] != w {
		return true
	}
	l, err := listeners(m.doc).find(itoa(w.of)) // with the ANA states of now
	if err == nil {
		one := *l
		one.ID, one.Address.AddrPort = id, w.addr
		err = m.tryListen(&one, w.of)
		if err := m.sweepDevices(); err != nil {
			m.log.Warn("closing a device that no listener needs", zap.Error(err))
		}
	}
	if err != nil {
		w.why = err.Error()
		return false
	}
	w.cancel()
	m.log.Info("address is there", zap.Int("listener", w.of), zap.Stringer("address", w.addr), zap.Duration("after", time.Since(w.since)))
	return true
}

func (m *Manager) unlisten(l *config.Listener) {
	if l.Wildcard() {
		m.unlistenEverywhere(l.ID)
		return
	}
	m.end(l.ID)
}

// end ends a listener of the target, or the waiting for it. It is gone then, whatever the device says.
func (m *Manager) end(port int) {
	x := m.listeners[port]
	delete(m.listeners, port)
	if x.listener == nil {
		x.cancel()
		return
	}
	x.device.listeners--
	if err := m.target.RemoveListener(target.PortID(port)); err != nil {
		m.log.Warn("listener is removed, not without an error", zap.Int("listener", x.of), zap.Stringer("address", x.addr), zap.Error(err))
	}
}
