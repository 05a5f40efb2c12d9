package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// options are the values of the command line flags.
type options struct {
	target, listen netip.AddrPort
	host           bool
	nqn            string
	hostNQN        string // by which attackers are allowed
	honestNQN      string
	honestKey      auth.Key // none: the target asks for none
	honest         string
	from           []netip.Addr
	socket         string
	pid            int
	seconds        time.Duration
	rest           time.Duration
	seed           uint64
	only           *regexp.Regexp
	rate           int
	skip           *regexp.Regexp // nil: none
	tries          int
	polite         bool
	list, verbose  bool
	bounds         bounds
}

// bounds are the limits of the verdict; a zero limit is not checked.
type bounds struct {
	ratio    float64
	p99      time.Duration
	newcomer time.Duration
}

const nvmePort = 4420

func parseOptions(args []string, out io.Writer) (o options, err error) {
	f := flag.NewFlagSet("gremlin", flag.ContinueOnError)
	f.SetOutput(out)
	target := f.String("target", "", "attack the target at `ADDR[:PORT]`")
	listen := f.String("listen", "", "be a target that misbehaves at `ADDR[:PORT]`")
	f.BoolVar(&o.host, "host", false, "with -listen: attack a host of this program with it")
	f.StringVar(&o.nqn, "nqn", "", "attack the subsystem `NQN`; default: the first of the discovery log")
	f.StringVar(&o.hostNQN, "hostnqn", "", "attack as the host `NQN`, which the target allows; default: random ones")
	f.StringVar(&o.honestNQN, "honest-hostnqn", "", "the honest host and newcomers are `NQN`; default: random ones")
	key := f.String("honest-key", "", "`FILE` with the key by which the honest host and newcomers authenticate")
	f.StringVar(&o.honest, "honest", "library", "the honest host: library, none, or the `DEVICE` under which another host has the namespace")
	from := f.String("from", "", "`ADDRS` of this machine, separated by commas: of the honest host, of newcomers, and of attackers; default: free ones of the loopback, or all that there are")
	f.StringVar(&o.socket, "socket", "", "`PATH` of the control socket, where the target is of this program")
	f.IntVar(&o.pid, "pid", 0, "`ID` of the target's process, where that is on this machine")
	seconds := f.Float64("seconds", 5, "each attack takes `N` seconds")
	f.DurationVar(&o.rest, "rest", 10*time.Second, "how long the target has after an attack to be as it was before")
	f.Uint64Var(&o.seed, "seed", 1, "where random numbers begin")
	only := f.String("only", "", "attacks whose names match `REGEXP`")
	skip := f.String("skip", "", "but not those whose names match `REGEXP`")
	f.IntVar(&o.tries, "tries", 1, "an attack that goes beyond the bounds is tried again, `N` times in all")
	f.IntVar(&o.rate, "rate", 10000, "datagrams of a flood in a second")
	f.BoolVar(&o.polite, "polite", false, "attackers end their connections after an attack; else they fall silent, and the target has to find out")
	f.BoolVar(&o.list, "list", false, "list the attacks")
	f.BoolVar(&o.verbose, "v", false, "print what attacks have to say, and which counters moved")
	f.Float64Var(&o.bounds.ratio, "ratio", 0.5, "the least of its rate that the honest host keeps, times the part of the processors that the attacker leaves to others on its machine")
	f.DurationVar(&o.bounds.p99, "p99", 10*time.Millisecond, "the most that its 99th percentile is; 0: whatever")
	f.DurationVar(&o.bounds.newcomer, "newcomer", 2*time.Second, "the most that a newcomer waits")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	o.seconds = time.Duration(*seconds * float64(time.Second))
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if *skip != "" {
		if o.skip, err = regexp.Compile(*skip); err != nil {
			return o, fmt.Errorf("-skip: %w", err)
		}
	}
	if o.from, err = parseAddrs(*from); err != nil {
		return o, fmt.Errorf("-from: %w", err)
	}
	if o.honestKey, err = readKey(*key); err != nil {
		return o, fmt.Errorf("-honest-key: %w", err)
	}
	if o.target, err = parseAddr(*target); err != nil {
		return o, err
	}
	if o.listen, err = parseAddr(*listen); err != nil {
		return o, err
	}
	if !o.list && o.target.IsValid() == o.listen.IsValid() {
		return o, errors.New("either -target or -listen is needed")
	}
	return o, nil
}

func parseAddrs(s string) (out []netip.Addr, err error) {
	for a := range strings.SplitSeq(s, ",") {
		if a == "" {
			continue
		}
		addr, err := netip.ParseAddr(a)
		if err != nil {
			return nil, err
		}
		out = append(out, addr)
	}
	return out, nil
}

// readKey reads a key from a file, or returns the zero key if path is empty.
func readKey(path string) (auth.Key, error) {
	if path == "" {
		return auth.Key{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return auth.Key{}, err
	}
	return auth.ParseKey(string(text))
}

// parseAddr parses an address with or without a port; an empty string gives the zero value.
func parseAddr(s string) (netip.AddrPort, error) {
	if s == "" {
		return netip.AddrPort{}, nil
	}
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return netip.AddrPortFrom(a, nvmePort), nil
	}
	return netip.ParseAddrPort(s)
}
