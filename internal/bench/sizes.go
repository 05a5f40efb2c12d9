package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/backend"
)

// Sizes are the sizes of the requests of a direction in bytes. The zero value stands for [Job.BlockSize] and
// [Job.MaxBlock].
type Sizes struct {
	Least, Most int     // random multiples of Least up to Most; Most 0: Least
	Split       []Share // if set, these sizes instead; multiples of the smallest of them
}

// A Share is a size and the percentage of requests that have it.
type Share struct{ Size, Percent int }

// complete fills in defaults from the job's sizes.
func (z *Sizes) complete(j *Job) {
	switch {
	case len(z.Split) > 0:
		z.Least, z.Most = z.Split[0].Size, z.Split[0].Size
		for _, s := range z.Split {
			z.Least, z.Most = min(z.Least, s.Size), max(z.Most, s.Size)
		}
	case z.Least == 0:
		z.Least, z.Most = j.BlockSize, j.MaxBlock
	}
	if z.Most == 0 {
		z.Most = z.Least
	}
}

func (z *Sizes) check(j *Job, info backend.Info) error {
	switch {
	case z.Least <= 0 || z.Least%info.BlockSize != 0:
		return fmt.Errorf("block size %d is not a multiple of the store's %d", z.Least, info.BlockSize)
	case z.Most < z.Least || z.Most > maxBlock:
		return fmt.Errorf("block sizes from %d to %d: the second is the larger one, and at most 1 GiB", z.Least, z.Most)
	case j.Size < int64(z.Least):
		return fmt.Errorf("%d bytes hold no request of %d", j.Size, z.Least)
	}
	sum := 0
	for _, s := range z.Split {
		if s.Size%z.Least != 0 || s.Percent < 0 {
			return fmt.Errorf("block sizes of %d bytes in %d percent: they are multiples of the least, %d", s.Size, s.Percent, z.Least)
		}
		sum += s.Percent
	}
	if len(z.Split) > 0 && sum != 100 {
		return fmt.Errorf("the shares of block sizes are %d percent together, not 100", sum)
	}
	return nil
}

// draw returns the size of a request as a multiple of Least.
func (z *Sizes) draw(random *rand.Rand) int64 {
	if len(z.Split) > 0 {
		at := random.IntN(100)
		for i := range z.Split {
			if at -= z.Split[i].Percent; at < 0 {
				return int64(z.Split[i].Size / z.Least)
			}
		}
	}
	if z.Most > z.Least {
		return 1 + random.Int64N(int64(z.Most/z.Least))
	}
	return 1
}

// checkSizes checks the sizes of all directions of the pattern.
func (j *Job) checkSizes(info backend.Info) error {
	for d := range Direction(Directions) {
		if !j.Pattern.Does(d) {
			continue
		}
		if err := j.Blocks[d].check(j, info); err != nil {
			return err
		}
	}
	if w, t := &j.Blocks[ToWrite], &j.Blocks[ToTrim]; j.Pattern.pairs() && (w.Least != t.Least || w.Most != t.Most || !slices.Equal(w.Split, t.Split)) {
		return errors.New("trims and writes need the same block sizes, because trimmed blocks are written again")
	}
	return nil
}

// Sized returns the sizes of a direction with defaults filled in.
func (j *Job) Sized(d Direction) Sizes {
	z := j.Blocks[d]
	z.complete(j)
	return z
}

// MaxSize returns the size of the largest request.
func (j *Job) MaxSize() (most int) {
	for d := range Direction(Directions) {
		if j.Pattern.Does(d) {
			most = max(most, j.Sized(d).Most)
		}
	}
	return most
}

// VerifyBlock returns the size of the blocks that a job with Verify writes or checks. Each of them has a header.
func (j *Job) VerifyBlock() int {
	if j.Pattern.Does(ToWrite) {
		return j.Sized(ToWrite).Least
	}
	return j.Sized(ToRead).Least
}

// SizeText returns the sizes as text, such as 4 KiB or 4 KiB-64 KiB, for each direction if they differ.
func (j *Job) SizeText() string {
	var all []string
	for d := range Direction(Directions) {
		if !j.Pattern.Does(d) {
			continue
		}
		z := j.Sized(d)
		text := Bytes(z.Least)
		if z.Most > z.Least {
			text += "-" + Bytes(z.Most)
		}
		all = append(all, text)
	}
	return strings.Join(slices.Compact(all), "/")
}
