package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Congestion has the parameters of softroce's congestion control, DCQCN ("Congestion Control for Large-Scale RDMA
// Deployments", SIGCOMM 2015). RDMA devices have congestion control of their own.
type Congestion struct {
	NoECN          bool     `json:"no-ecn,omitzero" default:"false" doc:"Send packets as not ECN-capable, for networks that mishandle ECN; received marks are still answered. Default false."`
	Ignore         bool     `json:"ignore,omitzero" default:"false" doc:"Ignore congestion notification packets (CNP): only losses reduce the rate. Default false."`
	MinRate        BitRate  `json:"min-rate,omitzero" default:"10Mbit" doc:"Lowest rate of a connection. Default 10Mbit."`
	CNPInterval    Duration `json:"cnp-interval,omitzero" default:"50µs" doc:"Minimum time between two notifications sent, and between two reductions of the rate. Default 50us."`
	Gain           Part     `json:"gain,omitzero" default:"1/256" doc:"Weight of a notification in the estimate of how congested the path is, written 1/256. Default 1/256."`
	AlphaPeriod    Duration `json:"alpha-period,omitzero" default:"55µs" doc:"Time without a notification after which that estimate decays. Default 55us."`
	IncreasePeriod Duration `json:"increase-period,omitzero" default:"55µs" doc:"Time after which the rate is increased. Default 55us, or the round-trip time if that is longer."`
	IncreaseBytes  Size     `json:"increase-bytes,omitzero" default:"10MB" max:"1000000000" doc:"Bytes sent after which the rate is increased. Default 10MB."`
	FastRounds     int      `json:"fast-rounds,omitzero" default:"5" min:"1" max:"1000" doc:"Number of increases that each recover half of the reduction; later ones are additive. Default 5."`
	HyperRounds    int      `json:"hyper-rounds,omitzero" default:"50" min:"1" max:"100000" doc:"Number of the increase from which the steps grow. Default 50."`
	AdditiveStep   BitRate  `json:"additive-step,omitzero" default:"40Mbit" doc:"Step of an additive increase. Default 40Mbit."`
	HyperStep      BitRate  `json:"hyper-step,omitzero" default:"40Mbit" doc:"First of the growing steps; the second is twice that, and so on. Default 40Mbit."`
}

// check reports parameters that contradict each other.
func (c *Congestion) check() Problems {
	fast, hyper := cmp.Or(c.FastRounds, 5), cmp.Or(c.HyperRounds, 50)
	if hyper >= fast {
		return nil
	}
	return Problems{{Path: "hyper-rounds", Text: fmt.Sprintf("%d is less than fast-rounds, which is %d", hyper, fast), Fix: fmt.Sprintf("use at least %d", fast)}}
}

// ParseCongestion parses parameters as given on a command line: NAME=VALUE, separated by commas. For a boolean,
// NAME means true.
func ParseCongestion(s string) (c Congestion, err error) {
	n := &node{kind: kindObject}
	fields := fieldsOf(reflect.TypeFor[Congestion]())
	for part := range strings.SplitSeq(s, ",") {
		name, value, given := strings.Cut(part, "=")
		v := &node{kind: kindText, text: value}
		if at := slices.IndexFunc(fields, func(f fieldInfo) bool { return f.name == name }); at >= 0 {
			if v, err = textNode(reflect.TypeFor[Congestion]().Field(fields[at].index).Type, value, given); err != nil {
				return c, fmt.Errorf("%s: %w", name, err)
			}
		}
		n.fields = append(n.fields, field{name: name, value: v})
	}
	d := &decoder{places: map[string]Position{}}
	d.decode(n, reflect.ValueOf(&c).Elem(), "", fieldInfo{})
	if len(d.problems) == 0 {
		d.problems = c.check()
	}
	return c, d.problems.err()
}

// String returns the form that [ParseCongestion] parses; "" if all are defaults.
func (c Congestion) String() string {
	if c == (Congestion{}) {
		return ""
	}
	var parts []string
	v := reflect.ValueOf(c)
	for _, f := range fieldsOf(v.Type()) {
		if x := v.Field(f.index); !x.IsZero() {
			parts = append(parts, f.name+"="+strings.Trim(scalar(x), `"`))
		}
	}
	return strings.Join(parts, ",")
}

// A BitRate is a number of bits per second, written 40Mbit.
type BitRate int64

var rateUnits = []struct {
	suffix string
	bits   int64
}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}}

func (r *BitRate) UnmarshalText(b []byte) error {
	for _, u := range rateUnits {
		number, ok := strings.CutSuffix(string(b), u.suffix)
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(number, 10, 20); err == nil && n > 0 {
			*r = BitRate(int64(n) * u.bits)
			return nil
		}
	}
	return fmt.Errorf("rate %s: write it as 500kbit, 40Mbit or 1Gbit", nvmeof.Printable(string(b)))
}

func (r BitRate) MarshalText() ([]byte, error) {
	for _, u := range rateUnits {
		if int64(r)%u.bits == 0 {
			return []byte(strconv.FormatInt(int64(r)/u.bits, 10) + u.suffix), nil
		}
	}
	return nil, fmt.Errorf("a rate of %d bits per second cannot be written", int64(r))
}

func (*BitRate) pattern() (string, []string) { return `^[1-9][0-9]{0,5}[kMG]bit$`, nil }

// A Part is a fraction 1/n, written 1/256. Its value is n.
type Part int

const maxPart = 65536

func (p *Part) UnmarshalText(b []byte) error {
	number, _ := strings.CutPrefix(string(b), "1/")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || number == string(b) || n < 1 || n > maxPart {
		return fmt.Errorf("part %s: write it as 1/256, down to 1/%d", nvmeof.Printable(string(b)), maxPart)
	}
	*p = Part(n)
	return nil
}

func (p Part) MarshalText() ([]byte, error) { return []byte("1/" + strconv.Itoa(int(p))), nil }
func (*Part) pattern() (string, []string)   { return `^1/[1-9][0-9]{0,4}$`, nil }
