package softroce

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

const (
	defaultTapBuffer = 1 << 20
	ipUDPHeaders     = 40 + 8 // at most
)

// A capture implements rdmatransport.Capture.
type capture struct {
	dev     *Device
	snap    int       // bytes of a packet that are handed on
	taps    []*tap    // of all shards
	spare   []*tapBox // of each; the shard has another
	counts  []tapCounts
	packets []rdmatransport.CapturedPacket
	bytes   []byte // that packets refers to
}

type tapCounts struct{ seen, dropped uint64 }

// Capture implements rdmatransport.Capturer. Packets that came merged, or are sent so, are
// captured one by one; the identification of those that came over IPv4 is the one with which
// their ICRC is right. It keeps twice CaptureConfig.Buffer in each shard, and as much again.
func (d *Device) Capture(cfg rdmatransport.CaptureConfig) (rdmatransport.Capture, error) {
	if cfg.Buffer == 0 {
		cfg.Buffer = defaultTapBuffer
	}
	keep, snap := math.MaxInt, math.MaxInt
	if cfg.Snap > 0 {
		snap = cfg.Snap
		headers := ipUDPHeaders
		if d.addr.Is4() {
			headers = 20 + 8
		}
		keep = max(0, cfg.Snap-headers)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, rdmatransport.ErrClosed
	case d.capture != nil:
		return nil, fmt.Errorf("softroce: %v: %w", d.addr, rdmatransport.ErrCapturing)
	}
	c := &capture{dev: d, snap: snap, counts: make([]tapCounts, len(d.shards))}
	d.capture = c
	for _, s := range d.shards {
		t := &tap{dev: d, keep: keep, box: newTapBox(cfg.Buffer)}
		c.taps, c.spare = append(c.taps, t), append(c.spare, newTapBox(cfg.Buffer))
		s.do(func() {
			t.choose(s, cfg.Only)
			s.tap, s.tx.tap = t, t
		})
	}
	return c, nil
}

// Select implements rdmatransport.Capture.
func (c *capture) Select(qpns []rdmatransport.QPN) {
	qpns = slices.Clone(qpns)
	for i, s := range c.driven() {
		s.do(func() { c.taps[i].choose(s, qpns) })
	}
}

// driven are the shards that somebody drives: the mailboxes of others are not emptied.
func (c *capture) driven() []*shard {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	return c.dev.shards[:c.dev.taken]
}

// Close implements rdmatransport.Capture.
func (c *capture) Close() {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	if c.dev.capture != c {
		return
	}
	c.dev.capture = nil
	for i, s := range c.dev.shards {
		s.do(func() {
			if s.tap == c.taps[i] {
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

// Read implements rdmatransport.Capture. A shard that nobody drives makes it wait.
func (c *capture) Read(ctx context.Context) (rdmatransport.Captured, error) {
	driven := c.driven()
	all := make(chan filled, len(driven))
	for i, s := range driven {
		t, empty := c.taps[i], c.spare[i]
		empty.reset()
		s.do(func() {
			full := t.box
			t.box = empty
			all <- filled{i, full, tapCounts{t.seen, t.dropped}}
		})
	}
	for range driven {
		select {
		case f := <-all:
			c.spare[f.shard], c.counts[f.shard] = f.box, f.tapCounts
		case <-c.dev.ended:
			return rdmatransport.Captured{}, rdmatransport.ErrClosed
		case <-ctx.Done():
			return rdmatransport.Captured{}, context.Cause(ctx)
		}
	}
	return c.collect(len(driven)), nil
}

// collect makes packets of what so many shards have given.
func (c *capture) collect(driven int) rdmatransport.Captured {
	var size, n int
	for _, b := range c.spare[:driven] {
		n += len(b.records)
		size += len(b.bytes) + ipUDPHeaders*len(b.records)
	}
	c.packets, c.bytes = c.packets[:0], slices.Grow(c.bytes[:0], size)
	for _, b := range c.spare[:driven] {
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
