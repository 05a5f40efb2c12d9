package target

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A ControllerRange is a range of controller identifiers. The zero value stands for all, 1 to FFEFh.
type ControllerRange struct{ First, Last capsule.ControllerID }

// ParseControllerRange parses FIRST..LAST.
func ParseControllerRange(text string) (ControllerRange, error) {
	first, last, found := strings.Cut(text, "..")
	a, errFirst := strconv.ParseUint(first, 10, 16)
	b, errLast := strconv.ParseUint(last, 10, 16)
	r := ControllerRange{capsule.ControllerID(a), capsule.ControllerID(b)}
	if !found || errFirst != nil || errLast != nil || !r.valid() {
		return ControllerRange{}, fmt.Errorf("%q: want FIRST..LAST within %d..%d, as in 1..2040 for one target and 2041..4080 for the next",
			text, capsule.ControllerIDMin, capsule.ControllerIDMax)
	}
	return r, nil
}

func (r ControllerRange) valid() bool {
	return r.First >= capsule.ControllerIDMin && r.Last <= capsule.ControllerIDMax && r.First <= r.Last
}

// String returns FIRST..LAST, or an empty string for the zero value.
func (r ControllerRange) String() string {
	if r == (ControllerRange{}) {
		return ""
	}
	return fmt.Sprintf("%d..%d", r.First, r.Last)
}
