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

// A heldDevice is an open RDMA device of listeners. The Manager's mutex guards it. A device without listeners is
// kept until the change that removed the last one is complete.
type heldDevice struct {
	name      string
	rdma      rdmatransport.Device
	target    *target.Device
	listeners int
}

// A listening is a listener of the document, or an address of a wildcard listener. The Manager's mutex guards it.
type listening struct {
	of       int              // identifier in the document
	listener *target.Listener // nil: it waits for its device
	device   *heldDevice
	addr     netip.AddrPort

	why    string // why it waits
	since  time.Time
	cancel context.CancelFunc
}

// deviceName returns the name of the device of a listener.
func (m *Manager) deviceName(l *config.Listener) string {
	if m.cfg.DeviceName == nil {
		return l.Address.Addr().String()
	}
	return m.cfg.DeviceName(l.Address.Addr(), l.Transport)
}

// away reports whether an error says that a device or its address is not available now, or hangs.
func (m *Manager) away(err error) bool {
	return errors.As(err, new(*LeavingError)) || errors.As(err, new(*HungError)) || absent(err) || errors.Is(err, rdmatransport.ErrDeviceLost) || m.cfg.Away != nil && m.cfg.Away(err)
}

// device returns the device of a listener. It opens the device if necessary.
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
	}, func(dev rdmatransport.Device) { // the next attempt opens it again
		if err := dev.Close(); err != nil {
			m.log.Warn("closing a device that took too long to open failed", zap.String("device", name), zap.Error(err))
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

// closeDevice ends the connections through a device that was removed, and closes it. The caller holds mu.
func (m *Manager) closeDevice(d *heldDevice) error {
	m.closing(d)
	m.closings[d.name] = d
	l := &leaving{what: "device " + d.name, unfinished: d.target.Unfinished}
	return m.remove(l, func() error {
		return errors.Join(d.target.Remove("no listener uses its device any more"), d.rdma.Close())
	},
		func() { delete(m.closings, d.name) })
}

// sweepDevices closes devices without listeners.
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

// listen adds a listener. If the options say so, it waits for the device.
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
		return err // before an address of a wildcard is given up for it
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

// tryListen adds a listener to the target. of is the identifier of the document's listener, of which l may be one
// address.
func (m *Manager) tryListen(l *config.Listener, of int) error {
	d, err := m.device(l)
	if err != nil {
		return err
	}
	t, err := d.target.Listen(target.ListenerConfig{ID: target.PortID(l.ID), Addr: l.Address.AddrPort, ANA: anaTable(l)})
	if err != nil {
		return err // sweepDevices closes a device that is not needed
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

// lose closes a lost device. Its listeners wait for it.
func (m *Manager) lose(d *heldDevice, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.devices[d.name] != d { // all listeners of a device end at once; the first call does this
		return
	}
	note(m, events.Listener, events.Error, events.Event{}, "device "+d.name+" is lost: "+why.Error())
	m.log.Warn("device is lost; its listeners wait for it", zap.String("device", d.name), zap.Error(why))
	delete(m.devices, d.name)
	m.gauge.setDevices(m.devices)
	if err := m.closeDevice(d); err != nil {
		m.log.Warn("closing a lost device failed", zap.String("device", d.name), zap.Error(err))
	}
	for id, l := range m.listeners {
		if l.device == d {
			m.awaitDevice(id, l.of, l.addr, why)
		}
	}
}

// awaitDevice retries adding a listener until it succeeds. The caller holds mu.
func (m *Manager) awaitDevice(id, of int, at netip.AddrPort, why error) {
	ctx, cancel := context.WithCancel(m.context)
	l := &listening{of: of, addr: at, why: why.Error(), since: time.Now(), cancel: cancel}
	m.listeners[id] = l
	note(m, events.Listener, events.Warning, events.Event{Address: at.String()}, "listener waits for its address: "+why.Error())
	m.log.Warn("listener waits for its address", zap.Int("listener", of), zap.Stringer("address", at), zap.Error(why),
		zap.String("remedy", "assign the address to an interface, or connect the device; or nvmeof listener remove"))
	m.tasks.Go(func() { // ends when the listener is there or is removed, or at Close
		backoff(ctx, m.firstWait, longListen, func() bool { return m.listenAgain(ctx, id, l) })
	})
}

// awaitListener waits for the listener that a step could not add, whatever the error. It reports whether the step
// adds one, since then the others can be served. The caller holds mu.
func awaitListener(m *Manager, c config.Change, why error) bool {
	l, ok := c.New.(*config.Listener)
	if !ok || c.Op != config.Add || l.Wildcard() {
		return false
	}
	m.awaitDevice(l.ID, l.ID, l.Address.AddrPort, why)
	return true
}

// listens reports whether hosts can connect to a listener, or will be able to when addresses appear. The caller
// holds mu.
func listens(m *Manager) bool {
	for _, l := range m.listeners {
		if l.listener != nil {
			return true
		}
	}
	return len(m.wildcards) > 0
}

// listenAgain retries adding a listener. It reports whether no retry is needed.
func (m *Manager) listenAgain(ctx context.Context, id int, w *listening) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil || m.listeners[id] != w {
		return true
	}
	l, err := listeners(m.doc).find(itoa(w.of)) // with the present ANA states
	if err == nil {
		one := *l
		one.ID, one.Address.AddrPort = id, w.addr
		err = m.tryListen(&one, w.of)
		if err := m.sweepDevices(); err != nil {
			m.log.Warn("closing a device without listeners failed", zap.Error(err))
		}
	}
	if err != nil {
		w.why = err.Error()
		return false
	}
	w.cancel()
	m.log.Info("address is available, listener is open", zap.Int("listener", w.of), zap.Stringer("address", w.addr), zap.Duration("after", time.Since(w.since)))
	return true
}

func (m *Manager) unlisten(l *config.Listener) {
	if l.Wildcard() {
		m.unlistenEverywhere(l.ID)
		return
	}
	m.end(l.ID)
}

// end removes a listener from the target, or ends the wait for it. It is removed even if the device returns an
// error.
func (m *Manager) end(port int) {
	x := m.listeners[port]
	delete(m.listeners, port)
	if x.listener == nil {
		x.cancel()
		return
	}
	x.device.listeners--
	if err := m.target.RemoveListener(target.PortID(port)); err != nil {
		m.log.Warn("listener is removed, but its device reported an error", zap.Int("listener", x.of), zap.Stringer("address", x.addr), zap.Error(err))
	}
}
