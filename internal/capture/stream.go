package capture

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Source is a device whose packets are captured.
type Source struct {
	Name   string
	Device rdmatransport.Capturer
}

// A Pair is a queue pair of a source and its owner.
type Pair struct {
	Device rdmatransport.Capturer // that of the source
	QPN    rdmatransport.QPN
	Host   string
	Name   string // for comments
}

// Config says what to capture. Zero fields after About select defaults.
type Config struct {
	Sources func() []Source // returns the present sources
	Pairs   func() []Pair   // returns the present queue pairs
	Program string          // the program that writes the file
	About   string          // further text for the beginning of the file

	Host  string            // capture only queue pairs of this host
	QPN   rdmatransport.QPN // capture only this queue pair
	Snap  int               // bytes of each packet; default: all
	Count int               // packets after which the capture ends; default: none
}

// DefaultSnap is how many bytes of each packet commands and APIs keep by default. It holds headers, a capsule, and a
// message of the connection manager (328 bytes over IPv6), but little of the hosts' data.
const DefaultSnap = 384

const (
	readEvery   = 10 * time.Millisecond
	lookEvery   = 200 * time.Millisecond // interval of checks for new devices and queue pairs
	statsEvery  = time.Second
	largeBuffer = 4 << 20 // for each shard, if packets are kept whole
)

// A pairKey identifies a queue pair.
type pairKey struct {
	device rdmatransport.Capturer
	qpn    rdmatransport.QPN
}

// A direction is a direction of a queue pair.
type direction struct {
	pairKey
	out bool
}

// A tapped is a source whose packets are being captured.
type tapped struct {
	Source
	number  int // of its interface in the file
	capture rdmatransport.Capture
	last    rdmatransport.Captured // the counts
}

// A stream is a capture in progress.
type stream struct {
	cfg        Config
	write      func([]byte) error
	open       []*tapped
	interfaces int // number of interfaces in the file
	names      map[pairKey]string
	named      map[direction]string // names that the file already contains
	looked     time.Time
	counted    time.Time
	written    int
	buf        []byte
}

// Stream captures until ctx ends or Count packets were captured. It calls write with whole blocks. Before its first
// call of write it may return an error. A device that is added later becomes another interface. A device that is
// removed gets final statistics with a comment that says so.
func Stream(ctx context.Context, cfg Config, write func([]byte) error) error {
	s := &stream{cfg: cfg, write: write, names: map[pairKey]string{}, named: map[direction]string{}}
	defer func() {
		for _, t := range s.open {
			t.capture.Close()
		}
	}()
	if err := s.begin(); err != nil {
		return err
	}
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for !s.enough() {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.turn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin opens the captures and writes the beginning of the file.
func (s *stream) begin() error {
	s.buf = appendSection(nil, s.cfg.Program, s.title())
	for _, source := range s.cfg.Sources() {
		if err := s.tap(source, ""); err != nil {
			return err
		}
	}
	s.look(time.Now())
	s.counted = time.Now()
	return s.write(s.buf)
}

// tap begins to capture a source.
func (s *stream) tap(source Source, comment string) error {
	cfg := rdmatransport.CaptureConfig{Snap: s.cfg.Snap}
	if s.filters() {
		cfg.Only = []rdmatransport.QPN{}
	}
	if s.cfg.Snap == 0 {
		cfg.Buffer = largeBuffer
	}
	c, err := source.Device.Capture(cfg)
	if err != nil {
		return err
	}
	s.open = append(s.open, &tapped{Source: source, number: s.interfaces, capture: c})
	s.interfaces++
	s.buf = appendInterface(s.buf, source.Name, "RoCEv2 endpoint "+source.Name, s.cfg.Snap, comment)
	return nil
}

// join captures new devices. A device that cannot be captured now is tried again.
func (s *stream) join() {
	for _, source := range s.cfg.Sources() {
		if !slices.ContainsFunc(s.open, func(t *tapped) bool { return t.Device == source.Device }) {
			_ = s.tap(source, "device "+source.Name+" is captured from "+time.Now().Format(time.RFC3339)+" on")
		}
	}
}

// leave ends the capture of a device that was removed.
func (s *stream) leave(t *tapped, why error) {
	t.capture.Close()
	s.open = slices.DeleteFunc(s.open, func(other *tapped) bool { return other == t })
	maps.DeleteFunc(s.named, func(d direction, _ string) bool { return d.device == t.Device })
	now := time.Now()
	s.buf = appendStatistics(s.buf, t.number, now, &t.last,
		fmt.Sprintf("device %s is no longer captured, since %s: %v", t.Name, now.Format(time.RFC3339), why))
}

// title returns the description of the capture for the file.
func (s *stream) title() string {
	text := "NVMe over RDMA (RoCEv2)"
	if s.cfg.Host != "" {
		text += ", host " + s.cfg.Host
	}
	if s.cfg.QPN != 0 {
		text += fmt.Sprintf(", queue pair %d", s.cfg.QPN)
	}
	if s.cfg.About != "" {
		text += "\n" + s.cfg.About
	}
	return text
}

func (s *stream) filters() bool { return s.cfg.Host != "" || s.cfg.QPN != 0 }

func (s *stream) enough() bool { return s.cfg.Count > 0 && s.written >= s.cfg.Count }

// look finds the present queue pairs and selects the requested ones.
func (s *stream) look(now time.Time) {
	s.looked = now
	wanted := map[rdmatransport.Capturer][]rdmatransport.QPN{}
	clear(s.names)
	for _, p := range s.cfg.Pairs() {
		s.names[pairKey{p.Device, p.QPN}] = p.Name
		if s.cfg.Host == p.Host && (s.cfg.QPN == 0 || s.cfg.QPN == p.QPN) {
			wanted[p.Device] = append(wanted[p.Device], p.QPN)
		}
	}
	if !s.filters() {
		return
	}
	for _, t := range s.open {
		qpns := append([]rdmatransport.QPN{}, wanted[t.Device]...)
		if s.cfg.Host == "" {
			qpns = append(qpns, s.cfg.QPN) // also a queue pair without an owner, such as QP 1
		}
		t.capture.Select(qpns)
	}
}

// turn writes what has been captured.
func (s *stream) turn(ctx context.Context) error {
	now := time.Now()
	s.buf = s.buf[:0]
	if now.Sub(s.looked) >= lookEvery {
		s.join()
		s.look(now)
	}
	for _, t := range slices.Clone(s.open) {
		got, err := t.capture.Read(ctx)
		switch {
		case err == nil:
			s.take(t, &got, now)
		case ctx.Err() != nil:
			return nil
		default:
			s.leave(t, err)
		}
	}
	if now.Sub(s.counted) >= statsEvery || s.enough() {
		s.counted = now
		for _, t := range s.open {
			s.buf = appendStatistics(s.buf, t.number, now, &t.last, "")
		}
	}
	if len(s.buf) == 0 {
		return nil
	}
	return s.write(s.buf)
}

// take writes what a source has captured.
func (s *stream) take(t *tapped, got *rdmatransport.Captured, now time.Time) {
	if s.looked != now && s.strange(t.Device, got.Packets) {
		s.look(now)
	}
	for k := range got.Packets {
		if s.enough() {
			break
		}
		s.buf = appendPacket(s.buf, t.number, &got.Packets[k], s.comment(t.Device, &got.Packets[k]))
		s.written++
	}
	t.last = rdmatransport.Captured{Seen: got.Seen, Dropped: got.Dropped}
}

// strange reports whether there are packets of queue pairs without a known owner: they may be new, and may soon be
// gone.
func (s *stream) strange(on rdmatransport.Capturer, packets []rdmatransport.CapturedPacket) bool {
	return slices.ContainsFunc(packets, func(p rdmatransport.CapturedPacket) bool {
		return p.QPN > 1 && s.names[pairKey{on, p.QPN}] == ""
	})
}

// comment returns the owner's name for the first packet of a queue pair in each direction, and again when the name
// changes.
func (s *stream) comment(on rdmatransport.Capturer, p *rdmatransport.CapturedPacket) string {
	d := direction{pairKey{on, p.QPN}, p.Out}
	name := s.names[d.pairKey]
	if name == "" || s.named[d] == name {
		return ""
	}
	if len(s.named) > math.MaxUint16 {
		clear(s.named) // bounds the map; some names are repeated
	}
	s.named[d] = name
	way := "from the host"
	if p.Out {
		way = "to the host"
	}
	return fmt.Sprintf("%s, %s; queue pair %d here", name, way, p.QPN)
}
