package fabricoptions

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Duration is a flag with a duration; a plain number is in milliseconds, as in nvme-cli.
type Duration time.Duration

// Set implements pflag.Value.
func (p *Duration) Set(s string) error {
	if n, err := strconv.ParseUint(s, 0, 32); err == nil {
		*p = Duration(min(n, math.MaxInt32)) * Duration(time.Millisecond)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration: want a number of milliseconds, or a unit, as in 30s", s)
	}
	*p = Duration(d)
	return nil
}

// String returns "0" for zero, which usage texts do not show as a default.
func (p *Duration) String() string {
	if *p == 0 {
		return "0"
	}
	return time.Duration(*p).String()
}

func (*Duration) Type() string { return "duration" }
