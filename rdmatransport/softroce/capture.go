package softroce

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

const (
	defaultTapBuffer = 1 << 20
	ipUDPHeaders     = 40 + 8 // at most
)

// readTime is how long a shard may take to hand on what it has captured. One that is driven takes a
// turn of its loop.
const readTime = 5 * time.Second

// A capture implements rdmatransport.Capture.
type capture struct {
	dev    *Device
	snap   int // bytes of a packet that are handed on
	keep   int // of a datagram that are kept
	buffer int

	taps []*tap              // of the shards that somebody drives: the mailboxes of others are not emptied; guarded by dev.mu
	only []rdmatransport.QPN // guarded by dev.mu

	spare   []*tapBox // of each; the shard has another
	counts  []tapCounts
	packets []rdmatransport.CapturedPacket
	bytes   []byte // that packets refers to
}

type tapCounts struct{ seen, dropped uint64 }

// Capture implements rdmatransport.Capturer. Packets that came merged, or are sent so, are
// captured one by one; the identification of those that came over IPv4 is the one with which
// their ICRC is right. It keeps twice CaptureConfig.Buffer for each completion queue, and as much again.
func (d *Device) Capture(cfg rdmatransport.CaptureConfig) (rdmatransport.Capture, error) {
	c := &capture{dev: d, snap: math.MaxInt, keep: math.MaxInt, buffer: cmp.Or(cfg.Buffer, defaultTapBuffer), only: slices.Clone(cfg.Only)}
	if cfg.Snap > 0 {
		c.snap = cfg.Snap
		headers := ipUDPHeaders
		if d.addr.Is4() {
			headers = 20 + 8
		}
		c.keep = max(0, cfg.Snap-headers)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, rdmatransport.ErrClosed
	case d.capture != nil:
		return nil, fmt.Errorf("softroce: %v: %w", d.addr, rdmatransport.ErrCapturing)
	}
	d.capture = c
	for _, s := range d.shards[:d.taken] {
		c.tap(s)
	}
	return c, nil
}

// tap captures on the next shard that somebody drives. Called with dev.mu held.
func (c *capture) tap(s *shard) {
	t := &tap{dev: c.dev, keep: c.keep, box: newTapBox(c.buffer)}
	c.taps = append(c.taps, t)
	only := c.only
	s.do(func() {
		t.choose(s, only)
		s.tap, s.tx.tap = t, t
	})
}

// Select implements rdmatransport.Capture.
func (c *capture) Select(qpns []rdmatransport.QPN) {
	qpns = slices.Clone(qpns)
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	c.only = qpns
	for i, t := range c.taps {
		s := c.dev.shards[i]
		s.do(func() { t.choose(s, qpns) })
	}
}

// tapped are the taps of the shards that somebody drives.
func (c *capture) tapped() []*tap {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	return c.taps
}

// Close implements rdmatransport.Capture.
func (c *capture) Close() {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	if c.dev.capture != c {
		return
	}
	c.dev.capture = nil
	for i, t := range c.taps {
		s := c.dev.shards[i]
		s.do(func() {
			if s.tap == t {
				s.tap, s.tx.tap = nil, nil
			}
		})
	}
}

// A filled box is what a shard gives for an empty one.
type filled struct {
	shard int
	box   *tapBox
	tapCounts
}

// Read implements rdmatransport.Capture. A shard that nobody drives makes it fail after a while.
func (c *capture) Read(ctx context.Context) (rdmatransport.Captured, error) {
	taps := c.tapped()
	for len(c.spare) < len(taps) {
		c.spare, c.counts = append(c.spare, newTapBox(c.buffer)), append(c.counts, tapCounts{})
	}
	all := make(chan filled, len(taps))
	for i, t := range taps {
		empty := c.spare[i]
		empty.reset()
		c.dev.shards[i].do(func() {
			full := t.box
			t.box = empty
			all <- filled{i, full, tapCounts{t.seen, t.dropped}}
		})
	}
	late := time.NewTimer(readTime)
	defer late.Stop()
	for answered := range taps {
		select {
		case f := <-all:
			c.spare[f.shard], c.counts[f.shard] = f.box, f.tapCounts
		case <-c.dev.ended:
			return rdmatransport.Captured{}, rdmatransport.ErrClosed
		case <-ctx.Done():
			return rdmatransport.Captured{}, context.Cause(ctx)
		case <-late.C:
			return rdmatransport.Captured{}, fmt.Errorf("softroce: %v: %d of %d completion queues that were created have not been polled for %v: who drives them hangs",
				c.dev.addr, len(taps)-answered, len(taps), readTime)
		}
	}
	return c.collect(), nil
}

// collect makes packets of what the shards have given.
func (c *capture) collect() rdmatransport.Captured {
	var size, n int
	for _, b := range c.spare {
		n += len(b.records)
		size += len(b.bytes) + ipUDPHeaders*len(b.records)
	}
	c.packets, c.bytes = c.packets[:0], slices.Grow(c.bytes[:0], size)
	for _, b := range c.spare {
		for i := range b.records {
			c.packets = append(c.packets, c.packet(&b.records[i]))
		}
	}
	slices.SortStableFunc(c.packets, func(a, b rdmatransport.CapturedPacket) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })
	out := rdmatransport.Captured{Packets: c.packets}
	for _, k := range c.counts {
		out.Seen += k.seen
		out.Dropped += k.dropped
	}
	return out
}

func (c *capture) packet(r *tapRecord) rdmatransport.CapturedPacket {
	start := len(c.bytes)
	c.bytes = udp.AppendPacket(c.bytes, r.from, r.to, r.tos, r.id, r.data, r.length)
	data := c.bytes[start:len(c.bytes):len(c.bytes)]
	return rdmatransport.CapturedPacket{Time: c.dev.start.Add(r.at), Out: r.out, QPN: r.qpn,
		Length: len(data) + r.length - len(r.data), Data: data[:min(len(data), c.snap)]} // the headers may be too much already
}

var _ rdmatransport.Capturer = (*Device)(nil)
