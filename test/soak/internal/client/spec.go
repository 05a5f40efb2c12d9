package client

import (
	"math/bits"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Spec says what a client does and where.
type Spec struct {
	Name string

	// With the library: its address, its identity and the paths.
	Addr    netip.Addr
	HostNQN nvmeof.NQN
	HostID  string
	Key     string // DHHC-1:..., or empty
	CtrlKey string
	NQN     nvmeof.NQN
	Paths   []netip.Addr
	Policy  string

	Socket string // or with NBD, if not empty

	Spaces  []Space
	Depth   int           // requests in a batch
	Pace    time.Duration // mean time between batches
	Seed    uint64
	Killed  bool          // the previous client was killed
	Fence   time.Duration // time after which a target executes no more commands of a host that is gone
	Timeout time.Duration // keep alive
}

// A Space is a namespace that is verified.
type Space struct {
	NSID      uint32
	Number    uint32 // its number in the blocks that are written
	Table     string // path of its record
	BlockSize int
	Blocks    int
	First     int // first block that this client writes
	Count     int
	Workers   int
}

// A Report is a line of a client's output.
type Report struct {
	Event     string `json:",omitempty"` // something happened
	Violation string `json:",omitempty"` // what ended the client
	Ready     bool   `json:",omitempty"` // it is connected
	Counts    *Counts
}

// Counts are totals since the start of the process.
type Counts struct {
	Reads, Writes, FUA, Flushes uint64 // requests
	Verified, Written           uint64 // blocks
	ReadBytes, WrittenBytes     uint64
	Passes                      uint64 // complete reads of a namespace
	Errors                      map[string]uint64
	Latency                     Histogram
	Goroutines                  int
}

// Add adds the counts of another process.
func (c *Counts) Add(o *Counts) {
	c.Reads += o.Reads
	c.Writes += o.Writes
	c.FUA += o.FUA
	c.Flushes += o.Flushes
	c.Verified += o.Verified
	c.Written += o.Written
	c.ReadBytes += o.ReadBytes
	c.WrittenBytes += o.WrittenBytes
	c.Passes += o.Passes
	c.Latency.Add(&o.Latency)
	if c.Errors == nil {
		c.Errors = map[string]uint64{}
	}
	for k, n := range o.Errors {
		c.Errors[k] += n
	}
}

// Requests returns the number of all requests.
func (c *Counts) Requests() uint64 { return c.Reads + c.Writes + c.Flushes }

// A Histogram counts durations in classes. There are eight classes for each power of two of microseconds.
type Histogram struct {
	Classes [8 * 36]uint64
	Max     time.Duration
}

// Count adds a duration.
func (h *Histogram) Count(d time.Duration) {
	h.Classes[class(d)]++
	h.Max = max(h.Max, d)
}

func class(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 8 {
		return int(us)
	}
	shift := bits.Len64(us) - 4
	return min(8*(shift+1)+int(us>>shift)-8, 8*36-1)
}

// ceiling returns the longest duration of a class.
func ceiling(class int) time.Duration {
	if class < 8 {
		return time.Duration(class) * time.Microsecond
	}
	shift := class/8 - 1
	return (time.Duration(class%8+8+1)<<shift - 1) * time.Microsecond
}

// Add adds the counts of another histogram.
func (h *Histogram) Add(o *Histogram) {
	for i, n := range o.Classes {
		h.Classes[i] += n
	}
	h.Max = max(h.Max, o.Max)
}

// Quantile returns the duration that the given share of all, from 0 to 1, does not exceed.
func (h *Histogram) Quantile(share float64) time.Duration {
	all := uint64(0)
	for _, n := range h.Classes {
		all += n
	}
	if all == 0 {
		return 0
	}
	rank, seen := uint64(share*float64(all-1))+1, uint64(0)
	for i, n := range h.Classes {
		if seen += n; seen >= rank {
			return min(ceiling(i), h.Max)
		}
	}
	return h.Max
}
