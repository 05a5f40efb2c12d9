package benchcommand

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// perDirection parses one value for all directions, or up to three values separated by commas for reads, writes and
// trims. As with fio, the last value also applies to the directions that follow, and an empty one is the default.
func perDirection[V any](text string, none V, parse func(string) (V, error)) (all [bench.Directions]V, err error) {
	parts := strings.Split(text, ",")
	if len(parts) > len(all) {
		return all, fmt.Errorf("%s: want at most one value each for reads, writes and trims", text)
	}
	for d := range all {
		all[d] = none
		part := parts[min(d, len(parts)-1)]
		if part == "" {
			continue
		}
		if all[d], err = parse(part); err != nil {
			return all, err
		}
	}
	return all, nil
}

const (
	maxRequest       = 16 << 20
	defaultBlockSize = 4096
)

func requestSize(text string) (int, error) {
	n, err := nvmeof.ParseSize(text)
	if err == nil && n > maxRequest {
		err = fmt.Errorf("%s: want at most 16 MiB", text)
	}
	return int(n), err
}

func oneSize(text string) (bench.Sizes, error) {
	n, err := requestSize(text)
	return bench.Sizes{Least: n, Most: n}, err
}

func sizeRange(text string) (z bench.Sizes, err error) {
	least, most, ok := strings.Cut(text, "-")
	if !ok {
		return z, fmt.Errorf("%s: want the smallest and the largest size, as 4k-64k", text)
	}
	if z.Least, err = requestSize(least); err != nil {
		return z, err
	}
	if z.Most, err = requestSize(most); err == nil && z.Most < z.Least {
		err = fmt.Errorf("%s: want the smallest size first", text)
	}
	return z, err
}

// sizeSplit parses sizes with their shares in percent, such as 4k/60:64k/40. Sizes without a share divide the rest
// equally.
func sizeSplit(text string) (z bench.Sizes, err error) {
	left, open := 100, 0
	for part := range strings.SplitSeq(text, ":") {
		size, share, _ := strings.Cut(part, "/")
		s := bench.Share{Percent: -1}
		if s.Size, err = requestSize(size); err != nil {
			return z, err
		}
		if share == "" {
			open++
		} else if s.Percent, err = strconv.Atoi(share); err != nil || s.Percent < 0 || s.Percent > 100 {
			return z, fmt.Errorf("%s: a size and its share in percent, as 4k/60", part)
		}
		left -= max(s.Percent, 0)
		z.Split = append(z.Split, s)
	}
	if left < 0 || left > 0 && open == 0 {
		return z, fmt.Errorf("%s: the shares add up to %d percent, not 100", text, 100-left)
	}
	for i := range z.Split {
		if s := &z.Split[i]; s.Percent < 0 {
			s.Percent = left / open
			left -= s.Percent
			open--
		}
	}
	return z, nil
}

// blockSizes sets the sizes of requests.
func (l *load) blockSizes(j *bench.Job) error {
	name, text, parse := "bs", l.bs, oneSize
	switch {
	case l.bssplit != "":
		name, text, parse = "bssplit", l.bssplit, sizeSplit
	case l.bsrange != "":
		name, text, parse = "bsrange", l.bsrange, sizeRange
	}
	all, err := perDirection(text, bench.Sizes{Least: defaultBlockSize, Most: defaultBlockSize}, parse)
	if err != nil {
		return failure.Usagef("--%s: %v", name, err)
	}
	j.Blocks = all
	var used []bench.Sizes
	for d := range bench.Direction(bench.Directions) {
		if j.Pattern.Does(d) {
			used = append(used, j.Sized(d))
		}
	}
	j.BlockSize, j.MaxBlock = used[0].Least, used[0].Most
	plain := func(z bench.Sizes) bool { return z.Split == nil && z.Least == j.BlockSize && z.Most == j.MaxBlock }
	if !slices.ContainsFunc(used, func(z bench.Sizes) bool { return !plain(z) }) {
		j.Blocks = [bench.Directions]bench.Sizes{}
	}
	return nil
}

// rates sets the maximum rate of each direction. As with fio, rates in requests per second refer to the smallest block
// size.
func (l *load) rates(j *bench.Job) error {
	limit := func(text string) (int64, error) {
		if text == "0" {
			return 0, nil
		}
		return nvmeof.ParseSize(text)
	}
	if l.rate != "" && l.rateIOPS != "" {
		return failure.Usagef("--rate and --rate_iops exclude each other: both set the same limit, in different units")
	}
	all, err := perDirection(l.rate, 0, limit)
	if err != nil {
		return failure.Usagef("--rate: %v", err)
	}
	j.Rate = all
	if all, err = perDirection(l.rateIOPS, 0, limit); err != nil {
		return failure.Usagef("--rate_iops: %v", err)
	}
	for d, n := range all {
		if n > maxRate {
			return failure.Usagef("--rate_iops %d: at most %d", n, int64(maxRate))
		}
		if n > 0 {
			j.Rate[d] = n * int64(j.Sized(bench.Direction(d)).Least)
		}
	}
	return nil
}

const maxRate = 1e9 // requests per second

// maxPercentiles is fio's maximum.
const maxPercentiles = 20

// percentiles returns the percentiles of --percentile_list in ascending order.
func (l *load) percentiles() (all []float64, err error) {
	if l.percentileList == "" {
		return nil, nil
	}
	for s := range strings.SplitSeq(l.percentileList, ":") {
		p, err := strconv.ParseFloat(s, 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return nil, failure.Usagef("--percentile_list %s: want percentiles separated by colons, as 50:99:99.9", l.percentileList)
		}
		all = append(all, p)
	}
	if len(all) > maxPercentiles {
		return nil, failure.Usagef("--percentile_list: %d percentiles, at most %d", len(all), maxPercentiles)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// microseconds is a duration; a plain number is in microseconds, as with fio.
type microseconds time.Duration

func (m *microseconds) Set(text string) error {
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		*m = microseconds(n) * microseconds(time.Microsecond)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = strconv.ErrRange
	}
	*m = microseconds(d)
	return err
}

func (m *microseconds) String() string {
	if *m == 0 {
		return ""
	}
	return time.Duration(*m).String()
}

func (*microseconds) Type() string { return "microseconds" }
