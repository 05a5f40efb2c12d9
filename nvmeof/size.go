package nvmeof

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3},
	{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10},
	{"t", 1 << 40}, {"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}, {"B", 1},
}

// writtenUnits is the number of units that FormatSize uses, the first of sizeUnits.
const writtenUnits = 8

// ParseSize parses a positive number of bytes, as in flags and documents: 4096, 4k, 1GiB or 10GB. Units of one
// letter are binary, as in fio.
func ParseSize(s string) (int64, error) {
	number, unit := s, int64(1)
	for _, u := range sizeUnits {
		if n, ok := strings.CutSuffix(s, u.suffix); ok {
			number, unit = n, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && int64(n) > math.MaxInt64/unit:
		return 0, fmt.Errorf("size %s: write it as 4096, 4k, 512MiB or 10GB, of at most %d bytes", Printable(s), int64(math.MaxInt64))
	case err != nil:
		return 0, fmt.Errorf("size %s: write it as 4096, 4k, 512MiB or 10GB", Printable(s))
	case number[0] == '0' && n != 0: // YAML 1.1 reads this as octal
		return 0, fmt.Errorf("size %s: write it as 4096, 4k, 512MiB or 10GB, without a zero in front", Printable(s))
	case n == 0:
		return 0, fmt.Errorf("size %s: write it as 4096, 4k, 512MiB or 10GB, of more than nothing", Printable(s))
	}
	return int64(n) * unit, nil
}

// FormatSize returns the shortest text that [ParseSize] reads as size. If two are equally short, it prefers the
// binary unit.
func FormatSize(size int64) string {
	best := strconv.FormatInt(size, 10)
	for _, u := range sizeUnits[:writtenUnits] {
		if size != 0 && size%u.bytes == 0 {
			text := strconv.FormatInt(size/u.bytes, 10) + u.suffix
			if len(text) < len(best) || len(text) == len(best) && len(u.suffix) == 3 {
				best = text
			}
		}
	}
	return best
}
