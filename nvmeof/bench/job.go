package bench

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A Pattern is what is done, with fio's names.
type Pattern uint8

const (
	RandRead Pattern = iota
	RandWrite
	Read
	Write
)

var patternNames = [...]string{"randread", "randwrite", "read", "write"}

func (p Pattern) String() string { return patternNames[p] }

// Writes reports whether the pattern changes the store.
func (p Pattern) Writes() bool { return p == RandWrite || p == Write }

func (p Pattern) random() bool { return p == RandRead || p == RandWrite }

// ParsePattern is the reverse of String.
func ParsePattern(s string) (Pattern, error) {
	for i, name := range patternNames {
		if s == name {
			return Pattern(i), nil
		}
	}
	return 0, fmt.Errorf("%q: it is randread, randwrite, read or write", s)
}

// A Job is one load. Sizes are in bytes.
type Job struct {
	Pattern   Pattern
	BlockSize int // of each request
	Depth     int // requests in flight
	Runtime   time.Duration
	Ramp      time.Duration // at the beginning, not measured
	Size      int64         // load the first Size bytes; 0: all
	Verify    bool          // read back what was written, and compare
}

// check returns the job with its defaults, or what is wrong with it for a store.
func (j Job) check(info backend.Info, memory int) (Job, error) {
	if j.Size == 0 || j.Size > info.Size {
		j.Size = info.Size
	}
	switch {
	case j.BlockSize <= 0 || j.BlockSize%info.BlockSize != 0:
		return j, fmt.Errorf("block size %d is no multiple of the store's %d", j.BlockSize, info.BlockSize)
	case j.Size < int64(j.BlockSize):
		return j, fmt.Errorf("%d bytes hold no request of %d", j.Size, j.BlockSize)
	case j.Depth < 1 || j.Depth > maxDepth:
		return j, fmt.Errorf("depth %d: 1 to %d", j.Depth, maxDepth)
	case j.Depth*j.BlockSize > memory:
		return j, fmt.Errorf("%d requests of %d bytes need more than the %d bytes of memory given", j.Depth, j.BlockSize, memory)
	case j.Runtime <= 0:
		return j, fmt.Errorf("runtime %v is not positive", j.Runtime)
	case j.Verify && !j.Pattern.Writes():
		return j, fmt.Errorf("verifying needs data that was written: use randwrite or write, not %v", j.Pattern)
	case j.Pattern.Writes() && info.ReadOnly:
		return j, fmt.Errorf("%v: %w", j.Pattern, backend.ErrReadOnly)
	}
	return j, nil
}

const maxDepth = 1024

// blocks is how many requests cover the range.
func (j *Job) blocks() int64 { return j.Size / int64(j.BlockSize) }
