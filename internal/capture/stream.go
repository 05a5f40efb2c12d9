package capture

import (
	"context"
	"fmt"
	"io"
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

// A Pair is a queue pair of a source, and what it belongs to.
type Pair struct {
	Source int // its index
	QPN    rdmatransport.QPN
	Host   string
	Name   string // for comments
}

// Config says what is captured. A zero field of the others takes the default.
type Config struct {
	Sources []Source
	Pairs   func() []Pair // those that there are now
	Program string        // which writes it
	About   string        // what else the file says at its beginning

	Host  string            // packets of this host's queue pairs alone
	QPN   rdmatransport.QPN // of this queue pair alone
	Snap  int               // bytes of each packet; default: all
	Count int               // packets after which the capture ends; default: none
}

// DefaultSnap is how much of each packet commands and APIs keep by default: headers, a capsule, and a
// message of the connection manager, with 328 bytes over IPv6, but little of what hosts keep.
const DefaultSnap = 384

const (
	readEvery   = 10 * time.Millisecond
	lookEvery   = 200 * time.Millisecond // for queue pairs that are new
	statsEvery  = time.Second
	largeBuffer = 4 << 20 // of each shard, where packets are kept whole
)

// A pairKey names a queue pair.
type pairKey struct {
	source int
	qpn    rdmatransport.QPN
}

// direction is one of a queue pair's.
type direction struct {
	pairKey
	out bool
}

// A stream is a capture under way.
type stream struct {
	cfg      Config
	write    func([]byte) error
	captures []rdmatransport.Capture
	last     []rdmatransport.Captured // of each: the counts
	names    map[pairKey]string
	named    map[direction]string // what the file has said
	looked   time.Time
	counted  time.Time
	written  int
	buf      []byte
}

// Stream captures until ctx ends, or as many packets as were asked for, and has write write
// whole blocks. It begins with an error or a first call of write.
func Stream(ctx context.Context, cfg Config, write func([]byte) error) error {
	s := &stream{cfg: cfg, write: write, names: map[pairKey]string{}, named: map[direction]string{}, last: make([]rdmatransport.Captured, len(cfg.Sources))}
	defer func() {
		for _, c := range s.captures {
			c.Close()
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

// begin opens the captures, and writes the beginning of the file.
func (s *stream) begin() error {
	cfg := rdmatransport.CaptureConfig{Snap: s.cfg.Snap}
	if s.filters() {
		cfg.Only = []rdmatransport.QPN{}
	}
	if s.cfg.Snap == 0 {
		cfg.Buffer = largeBuffer
	}
	b := appendSection(nil, s.cfg.Program, s.title())
	for _, source := range s.cfg.Sources {
		c, err := source.Device.Capture(cfg)
		if err != nil {
			return err
		}
		s.captures = append(s.captures, c)
		b = appendInterface(b, source.Name, "RoCEv2 endpoint "+source.Name, s.cfg.Snap)
	}
	s.look(time.Now())
	s.counted = time.Now()
	return s.write(b)
}

// title says what the file has.
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

// look learns which queue pairs there are, and selects those that were asked for.
func (s *stream) look(now time.Time) {
	s.looked = now
	wanted := make([][]rdmatransport.QPN, len(s.captures))
	for i := range wanted {
		wanted[i] = []rdmatransport.QPN{}
		if s.cfg.Host == "" && s.cfg.QPN != 0 {
			wanted[i] = append(wanted[i], s.cfg.QPN) // also where it has no name, as 1
		}
	}
	clear(s.names)
	for _, p := range s.cfg.Pairs() {
		s.names[pairKey{p.Source, p.QPN}] = p.Name
		if s.cfg.Host == p.Host && (s.cfg.QPN == 0 || s.cfg.QPN == p.QPN) {
			wanted[p.Source] = append(wanted[p.Source], p.QPN)
		}
	}
	if !s.filters() {
		return
	}
	for i, c := range s.captures {
		c.Select(wanted[i])
	}
}

// turn writes what has been captured.
func (s *stream) turn(ctx context.Context) error {
	now := time.Now()
	if now.Sub(s.looked) >= lookEvery {
		s.look(now)
	}
	s.buf = s.buf[:0]
	for i, c := range s.captures {
		got, err := c.Read(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.cfg.Sources[i].Name, err)
		}
		if s.looked != now && s.strange(i, got.Packets) {
			s.look(now)
		}
		for k := range got.Packets {
			if s.enough() {
				break
			}
			s.buf = appendPacket(s.buf, i, &got.Packets[k], s.comment(i, &got.Packets[k]))
			s.written++
		}
		s.last[i] = rdmatransport.Captured{Seen: got.Seen, Dropped: got.Dropped}
	}
	if now.Sub(s.counted) >= statsEvery || s.enough() {
		s.counted = now
		for i := range s.last {
			s.buf = appendStatistics(s.buf, i, now, &s.last[i])
		}
	}
	if len(s.buf) == 0 {
		return nil
	}
	return s.write(s.buf)
}

// strange reports whether there are packets of queue pairs without a name: they may be new, and
// gone soon.
func (s *stream) strange(source int, packets []rdmatransport.CapturedPacket) bool {
	return slices.ContainsFunc(packets, func(p rdmatransport.CapturedPacket) bool {
		return p.QPN > 1 && s.names[pairKey{source, p.QPN}] == ""
	})
}

// comment names the first packet of a queue pair in each direction, and that from which it has
// another name.
func (s *stream) comment(source int, p *rdmatransport.CapturedPacket) string {
	d := direction{pairKey{source, p.QPN}, p.Out}
	name := s.names[d.pairKey]
	if name == "" || s.named[d] == name {
		return ""
	}
	if len(s.named) > math.MaxUint16 {
		clear(s.named) // it is bounded, and some are named again
	}
	s.named[d] = name
	way := "from the host"
	if p.Out {
		way = "to the host"
	}
	return fmt.Sprintf("%s, %s; queue pair %d here", name, way, p.QPN)
}

// A Summary is what a capture came to.
type Summary struct{ Packets, Seen, Dropped uint64 }

// Copy copies whole blocks from r to w, until r ends, and counts them. What follows the last whole block is
// left out: a file that ends in the middle of one is damaged.
func Copy(w io.Writer, r io.Reader) (sum Summary, err error) {
	seen, dropped := map[uint32]uint64{}, map[uint32]uint64{}
	defer func() {
		for on := range seen {
			sum.Seen += seen[on]
			sum.Dropped += dropped[on]
		}
	}()
	block := make([]byte, 8, 4096)
	for {
		if _, err := io.ReadFull(r, block[:8]); err != nil {
			return sum, ended(err)
		}
		size := int(le.Uint32(block[4:8]))
		if size < blockOverhead || size > maxBlock || size%4 != 0 {
			return sum, fmt.Errorf("what was received is not pcapng: a block of %d bytes", size)
		}
		if size > cap(block) {
			block = append(make([]byte, 0, size), block[:8]...)
		}
		block = block[:size]
		if _, err := io.ReadFull(r, block[8:]); err != nil {
			return sum, ended(err)
		}
		if _, err := w.Write(block); err != nil {
			return sum, &WriteError{err}
		}
		switch kind := le.Uint32(block); {
		case kind == blockPacket:
			sum.Packets++
		case kind == blockStatistics && size >= statisticsSize:
			on := le.Uint32(block[8:])
			seen[on], dropped[on] = le.Uint64(block[24:]), le.Uint64(block[36:])
		}
	}
}

// statisticsSize is that of the blocks of appendStatistics.
const statisticsSize = 8 + 12 + 12 + 12 + 4 + 4

// A WriteError is one of where a capture is copied to.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// ended is nil at the end of the stream, wherever that is.
func ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}
