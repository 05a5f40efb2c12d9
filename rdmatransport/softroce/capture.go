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
	ipUDPHeaders     = 40 + 8 // maximum: IPv6 and UDP
)

// readTime is how long Read waits for a shard to hand over what it has captured. A shard that is polled needs one
// turn of its loop.
const readTime = 5 * time.Second

// A capture implements rdmatransport.Capture.
type capture struct {
	dev    *Device
	snap   int // bytes of each packet that are returned
	keep   int // bytes kept of each datagram
	buffer int

	taps []*tap              // of the shards in use (the mailboxes of others are never emptied); guarded by dev.mu
	only []rdmatransport.QPN // guarded by dev.mu

	spare   []*tapBuffer // one for each tap, exchanged for the shard's in Read
	counts  []tapCounts
	packets []rdmatransport.CapturedPacket
	bytes   []byte // that packets refers to
}

type tapCounts struct{ seen, dropped uint64 }

// Capture implements rdmatransport.Capturer. Packets that arrive merged (GRO), or are sent with segmentation (GSO),
// are captured one by one. The identification of packets received over IPv4 is the one with which their ICRC is
// correct. The capture allocates twice CaptureConfig.Buffer for each completion queue, and as much again for Read.
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

// tap starts the capture on s, the next shard in use. dev.mu must be held.
func (c *capture) tap(s *shard) {
	t := &tap{dev: c.dev, keep: c.keep, box: newTapBuffer(c.buffer)}
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

// tapped returns the taps of the shards in use.
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

// A filled is the box that a shard returns in exchange for an empty one.
type filled struct {
	shard int
	box   *tapBuffer
	tapCounts
}

// Read implements rdmatransport.Capture. It fails after readTime if a shard is not polled.
func (c *capture) Read(ctx context.Context) (rdmatransport.Captured, error) {
	taps := c.tapped()
	for len(c.spare) < len(taps) {
		c.spare, c.counts = append(c.spare, newTapBuffer(c.buffer)), append(c.counts, tapCounts{})
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
			return rdmatransport.Captured{}, fmt.Errorf("softroce: %v: %d of %d completion queues have not been polled for %v: the program that polls them hangs",
				c.dev.addr, len(taps)-answered, len(taps), readTime)
		}
	}
	return c.collect(), nil
}

// collect turns the records of all shards into packets.
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
		Length: len(data) + r.length - len(r.data), Data: data[:min(len(data), c.snap)]} // Snap may be shorter than the headers
}

var _ rdmatransport.Capturer = (*Device)(nil)
