package softroce

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

// movedVersion is the version of the states of devices and queue pairs. Other versions are refused.
const movedVersion = 2

// movedDevice is the state of a device without its queue pairs.
type movedDevice struct {
	Provider string      `json:"provider"`
	Version  int         `json:"version"`
	Addr     netip.Addr  `json:"address"`
	Sockets  udp.Moved   `json:"sockets"` // also tells what each file is
	Manager  cm.Exported `json:"manager"`
	// Packets were read from the sockets and belong to queue pairs that had been exported.
	Packets []keptPacket `json:"packets,omitempty"`
}

// keptPacket is a packet that the next device handles when it begins.
type keptPacket struct {
	Shard int            `json:"shard"`
	From  netip.AddrPort `json:"from"`
	TOS   uint8          `json:"tos"`
	ID    int32          `json:"id"`
	Data  []byte         `json:"data"`
}

// maxKept is the number of packets that a shard keeps: as many as a softroce peer may have in flight to several queue
// pairs. Further ones are lost, as in the network.
const maxKept = 1024

// keep stores a copy of a packet for an exported queue pair.
func (s *shard) keep(d *udp.Datagram, b []byte) {
	if len(s.kept) == maxKept {
		s.stats.UnknownQPN++
		return
	}
	s.kept = append(s.kept, keptPacket{Shard: s.index, From: d.From, TOS: d.TOS, ID: d.ID, Data: append([]byte(nil), b...)})
}

// Prepare implements rdmatransport.MovableDevice.
func (d *Device) Prepare() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return rdmatransport.ErrClosed
	}
	if err := d.group.Prepare(); err != nil {
		return fmt.Errorf("softroce: %w", err)
	}
	return nil
}

// Move implements rdmatransport.MovableDevice. Stats.CM.HalfOpenMoved counts the connection requests that were
// dropped.
func (d *Device) Move() (*rdmatransport.Moved, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, rdmatransport.ErrClosed
	}
	d.settle()
	left := 0
	for _, s := range d.shards {
		left += len(s.qps)
	}
	if left > 0 {
		return nil, fmt.Errorf("softroce: %v still has %d queue pairs: export or close them before the device is moved", d.addr, left)
	}
	m := d.shards[0].manager
	out := movedDevice{Provider: "softroce", Version: movedVersion, Addr: d.addr}
	out.Manager = cm.Export(m.engine)
	for _, s := range d.shards {
		out.Packets = append(out.Packets, s.kept...)
	}
	var files []*os.File
	var err error
	if out.Sockets, files, err = d.group.Move(); err != nil {
		return nil, fmt.Errorf("softroce: %w", err)
	}
	moved := &rdmatransport.Moved{Files: files}
	if moved.State, err = json.Marshal(&out); err != nil {
		moved.Close()
		return nil, fmt.Errorf("softroce: state of %v: %w", d.addr, err)
	}
	for _, s := range d.shards {
		s.still = true // a late Poll must not read packets of the next device
	}
	for _, l := range m.listeners {
		l.abandon()
	}
	d.closed, d.moved = true, true
	d.finish()
	return moved, nil
}

// settle runs what the shards have pending, except receiving. Their owners have stopped, so it may.
func (d *Device) settle() {
	for again := true; again; {
		again = false
		for _, s := range d.shards {
			s.now = d.clock()
			again = s.mail.Run() || again
		}
		d.shards[0].manager.turn(d.shards[0].now)
	}
	for _, s := range d.shards {
		s.Flush()
	}
}

// continueMoved opens the device in Config.Moved.
func (d *Device) continueMoved() error {
	var st movedDevice
	if err := json.Unmarshal(d.cfg.Moved.State, &st); err != nil {
		return fmt.Errorf("the moved device's state: %w", err)
	}
	if err := d.checkMoved(&st); err != nil {
		return err
	}
	d.cfg.Shards = len(st.Sockets.Overflow)
	var err error
	if d.cfg.Network != nil {
		d.group, err = udp.Readopt(d.cfg.Network, d.addr, st.Sockets, d.cfg.Moved.Files)
	} else {
		d.group, err = udp.Adopt(d.addr, d.sockets(), st.Sockets, d.cfg.Moved.Files)
	}
	if err != nil {
		return fmt.Errorf("the moved device's sockets: %w", err)
	}
	d.cfg.Moved, d.waits = nil, true
	d.makeShards()
	for _, s := range d.shards {
		s.still, s.reserved = true, map[rdmatransport.QPN]bool{}
	}
	for _, k := range st.Packets {
		s := d.shards[k.Shard]
		s.kept = append(s.kept, k)
	}
	m := managerOf(d.shards[0], &st.Manager)
	d.shards[0].manager = m
	if err = st.Manager.Restore(0, m.engine); err != nil { // Check has accepted it
		d.group.Close()
		return err
	}
	for i := range st.Manager.Connections {
		c := &st.Manager.Connections[i]
		m.orphans = append(m.orphans, c.ID)
		d.shards[int(c.QPN)%len(d.shards)].reserved[c.QPN] = true
	}
	return nil
}

// checkMoved returns an error, before anything is done, if the state cannot be continued.
func (d *Device) checkMoved(st *movedDevice) error {
	shards := len(st.Sockets.Overflow)
	switch {
	case st.Provider != "softroce":
		return fmt.Errorf("the moved device is of provider %q, not softroce", st.Provider)
	case st.Version != movedVersion:
		return fmt.Errorf("the moved device's state has version %d, but this program supports version %d: let hosts reconnect instead", st.Version, movedVersion)
	case st.Addr != d.addr || !d.addr.IsValid():
		return fmt.Errorf("the moved device is %v, not %v", st.Addr, d.addr)
	case d.cfg.Shards != 0 && d.cfg.Shards != shards:
		return fmt.Errorf("the moved device has %d shards, not %d", shards, d.cfg.Shards)
	}
	for i := range st.Packets {
		if k := &st.Packets[i]; k.Shard < 0 || k.Shard >= shards || !k.From.IsValid() {
			return fmt.Errorf("a packet in the moved device's state is for shard %d of %d, from %v", k.Shard, shards, k.From)
		}
	}
	return st.Manager.Check(d.addr)
}

// Begin implements rdmatransport.MovableDevice.
func (d *Device) Begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.waits || d.closed {
		return
	}
	d.waits = false
	d.shards[0].do(d.shards[0].manager.begin)
	for _, s := range d.shards {
		s.do(s.begin)
	}
}

// begin lets the shard receive, starting with the packets that the previous device kept for it.
func (s *shard) begin() {
	s.still, s.reserved = false, nil
	if s.port.Begin() != nil {
		s.stats.ReceiveErrors++
	}
	s.reach.begin()
	defer s.reach.end()
	for i := range s.kept {
		k := &s.kept[i]
		s.handlePacket(&udp.Datagram{Data: k.Data, From: k.From, TOS: k.TOS, ID: k.ID}, k.Data, 0)
	}
	s.kept = nil
}

// begin ends connections that were not adopted.
func (m *manager) begin() {
	for _, id := range m.orphans {
		if _, ok := cm.QueuePair(m.engine, id); ok && m.conns[id] == nil {
			m.engine.Disconnect(m.shard.now, id)
		}
	}
	m.orphans = nil
}

var errNotMoved = errors.New("softroce: queue pairs can be adopted only after the device was opened from a moved one and before it is started")

var _ rdmatransport.MovableDevice = (*Device)(nil)
