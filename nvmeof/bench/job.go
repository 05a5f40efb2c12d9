package bench

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A Job is one load. Sizes are in bytes. It ends after Runtime, or Limit bytes,
// whichever is first.
type Job struct {
	Pattern   Pattern
	BlockSize int // of each request
	MaxBlock  int // of the largest, where sizes are drawn: multiples of BlockSize; 0: BlockSize
	Depth     int // requests in flight
	Runtime   time.Duration
	Limit     int64         // 0: none
	Ramp      time.Duration // at the beginning, not measured and not counted in Limit
	Offset    int64         // where the range that is loaded begins
	Size      int64         // of the range; 0: to the end of the store

	ReadShare  int    // of a mixed pattern, in percent; 0: 50, and 100 is all
	RepeatAny  bool   // random places are drawn anew each, instead of each once before any again
	FlushEvery int    // a flush after so many writes; 0: none
	Rate       int    // requests a second of each direction at most; 0: no limit
	Seed       uint64 // of places and data; 0: another each time
	Verify     bool   // read back what was written, or check what an earlier job wrote
	// Interval is how often counters are noted; 0: 10 ms. Where that is more than
	// memory is set aside for, it doubles.
	Interval time.Duration
}

const (
	maxDepth        = 1024
	defaultInterval = 10 * time.Millisecond
	defaultShare    = 50
	maxBlock        = 1 << 30
)

// check returns the job with its defaults, or what is wrong with it for a store.
func (j Job) check(info backend.Info, memory int) (Job, error) {
	j.defaults(info)
	switch {
	case j.BlockSize <= 0 || j.BlockSize%info.BlockSize != 0:
		return j, fmt.Errorf("block size %d is no multiple of the store's %d", j.BlockSize, info.BlockSize)
	case j.MaxBlock < j.BlockSize || j.MaxBlock > maxBlock:
		return j, fmt.Errorf("block sizes from %d to %d: the second is the larger one, and at most 1 GiB", j.BlockSize, j.MaxBlock)
	case j.Offset < 0 || j.Offset%int64(info.BlockSize) != 0 || j.Offset >= info.Size:
		return j, fmt.Errorf("offset %d is no multiple of the store's block size %d within its %d bytes", j.Offset, info.BlockSize, info.Size)
	case j.Size < int64(j.BlockSize):
		return j, fmt.Errorf("%d bytes hold no request of %d", j.Size, j.BlockSize)
	case j.Depth < 1 || j.Depth > maxDepth:
		return j, fmt.Errorf("depth %d: 1 to %d", j.Depth, maxDepth)
	case j.Memory(info) > memory:
		return j, fmt.Errorf("%d requests of %d bytes need more than the %d bytes of memory given", j.Depth, j.MaxBlock, memory)
	case j.Limit < 0 || j.Runtime < 0 || j.Runtime == 0 && j.Limit == 0:
		return j, fmt.Errorf("runtime %v is not positive", j.Runtime)
	case j.Ramp < 0 || j.Interval < 0 || j.FlushEvery < 0 || j.Rate < 0:
		return j, fmt.Errorf("ramp %v, interval %v, flush every %d, rate %d: none is negative", j.Ramp, j.Interval, j.FlushEvery, j.Rate)
	case j.ReadShare < 0 || j.ReadShare > 100:
		return j, fmt.Errorf("%d %% of reads: 0 to 100", j.ReadShare)
	case j.Verify && j.Pattern.trims():
		return j, fmt.Errorf("verifying needs data that was written: use randwrite or write, not %v", j.Pattern)
	case j.Pattern.Writes() && info.ReadOnly:
		return j, fmt.Errorf("%v: %w", j.Pattern, backend.ErrReadOnly)
	case j.Pattern.trims() && !info.Deallocate:
		return j, fmt.Errorf("%v: the store does not deallocate: %w", j.Pattern, backend.ErrUnsupported)
	}
	return j, nil
}

func (j *Job) defaults(info backend.Info) {
	if rest := info.Size - j.Offset; j.Size == 0 || j.Size > rest {
		j.Size = rest
	}
	if j.MaxBlock == 0 {
		j.MaxBlock = j.BlockSize
	}
	if j.ReadShare == 0 {
		j.ReadShare = defaultShare
	}
	if j.Interval == 0 {
		j.Interval = defaultInterval
	}
}

// Memory is how many bytes the job needs on a store.
func (j *Job) Memory(info backend.Info) int {
	return j.Depth * int(info.Stride(int64(max(j.BlockSize, j.MaxBlock))))
}

// blocks is how many requests of BlockSize cover the range.
func (j *Job) blocks() int64 { return j.Size / int64(j.BlockSize) }
