package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A Job is one load. Sizes are in bytes. It ends after Runtime or Limit bytes, whichever is first.
type Job struct {
	Pattern   Pattern
	BlockSize int               // of each request
	MaxBlock  int               // of the largest request, if sizes are random multiples of BlockSize; 0: BlockSize
	Blocks    [Directions]Sizes // for directions with different sizes
	Depth     int               // requests in flight
	Runtime   time.Duration
	Limit     int64         // 0: none
	Ramp      time.Duration // at the beginning; not measured and not counted in Limit
	Offset    int64         // start of the range under load
	Size      int64         // of the range; 0: to the end of the store

	ReadShare  int    // of a mixed pattern, in percent; 0: 50; 100: only reads
	RepeatAny  bool   // random places are drawn independently; otherwise each is used once before any is repeated
	FlushEvery int    // a flush after this many writes; 0: none
	Seed       uint64 // of places and data; 0: a different one each time
	Verify     bool   // read back what was written, or check what an earlier job wrote

	Rate       [Directions]int64 // maximum bytes per second; 0: no limit
	Think      time.Duration     // a pause with nothing in flight; 0: none
	ThinkEvery int               // requests between two pauses; 0: 1
	// Interval is how often counters are sampled; 0: 10 ms. It doubles when the memory for samples is full.
	Interval time.Duration
}

const (
	maxDepth        = 1024
	defaultInterval = 10 * time.Millisecond
	defaultShare    = 50
	maxBlock        = 1 << 30
)

// A JobError says that a job cannot be done with a store, so that the caller must choose another one. A store that
// rejects every request of a kind does not cause a JobError.
type JobError struct{ Err error }

func (e *JobError) Error() string { return e.Err.Error() }

func (e *JobError) Unwrap() error { return e.Err }

// check returns the job with its defaults, or says why it does not fit the store.
func (j Job) check(info backend.Info, memory int) (Job, error) {
	j, err := j.judge(info, memory)
	if err != nil && !errors.Is(err, backend.ErrReadOnly) && !errors.Is(err, backend.ErrUnsupported) {
		err = &JobError{err}
	}
	return j, err
}

func (j Job) judge(info backend.Info, memory int) (Job, error) {
	j.defaults(info)
	switch {
	case j.Offset < 0 || j.Offset%int64(info.BlockSize) != 0 || j.Offset >= info.Size:
		return j, fmt.Errorf("offset %d is not a multiple of the store's block size %d within its %d bytes", j.Offset, info.BlockSize, info.Size)
	case j.Depth < 1 || j.Depth > maxDepth:
		return j, fmt.Errorf("depth %d: want 1 to %d", j.Depth, maxDepth)
	case j.Memory(info) > memory:
		return j, fmt.Errorf("%d requests of %d bytes need more than the %d bytes of memory given", j.Depth, j.MaxSize(), memory)
	case j.Limit < 0 || j.Runtime < 0 || j.Runtime == 0 && j.Limit == 0:
		return j, fmt.Errorf("runtime %v is not positive", j.Runtime)
	case j.Ramp < 0 || j.Interval < 0 || j.FlushEvery < 0 || slices.Min(j.Rate[:]) < 0 || j.Think < 0 || j.ThinkEvery < 0:
		return j, fmt.Errorf("ramp %v, interval %v, flush every %d, rates %v, pauses of %v every %d: must not be negative",
			j.Ramp, j.Interval, j.FlushEvery, j.Rate, j.Think, j.ThinkEvery)
	case j.ReadShare < 0 || j.ReadShare > 100:
		return j, fmt.Errorf("%d %% of reads: 0 to 100", j.ReadShare)
	case j.Verify && !j.Pattern.Does(ToRead) && !j.Pattern.Does(ToWrite):
		return j, fmt.Errorf("verifying needs data that was written: use randwrite or write, not %v", j.Pattern)
	case j.Pattern.Writes() && info.ReadOnly:
		return j, fmt.Errorf("%v: %w", j.Pattern, backend.ErrReadOnly)
	case j.Pattern.Does(ToTrim) && !info.Deallocate:
		return j, fmt.Errorf("%v: the store does not deallocate: %w", j.Pattern, backend.ErrUnsupported)
	}
	return j, j.checkSizes(info)
}

func (j *Job) defaults(info backend.Info) {
	if rest := info.Size - j.Offset; j.Size == 0 || j.Size > rest {
		j.Size = rest
	}
	if j.MaxBlock == 0 {
		j.MaxBlock = j.BlockSize
	}
	for d := range j.Blocks {
		j.Blocks[d] = j.Sized(Direction(d))
	}
	if j.ThinkEvery == 0 {
		j.ThinkEvery = 1
	}
	if j.ReadShare == 0 {
		j.ReadShare = defaultShare
	}
	if j.Interval == 0 {
		j.Interval = defaultInterval
	}
}

// Memory returns how many bytes of memory the job needs on a store.
func (j *Job) Memory(info backend.Info) int {
	return j.Depth * int(info.Stride(int64(j.MaxSize())))
}

// blocks returns how many requests of the smallest size cover the range.
func (j *Job) blocks(d Direction) int64 { return j.Size / int64(j.Blocks[d].Least) }
