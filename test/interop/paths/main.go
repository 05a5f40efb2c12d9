// Command paths writes and reads a namespace over several paths, and compares, until a file appears. Any error or
// difference ends it with status 1. It prints "running" when it has begun, a line for every event of a path, and at the
// end how much it did. It overwrites the whole namespace.
//
//	paths -nqn NQN -host ADDR [-transport softroce] [-policy numa] [-kato 3s] -until FILE ADDR:PORT...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/test/interop/device"
)

func main() {
	var c config
	flag.StringVar(&c.nqn, "nqn", "", "name of the subsystem")
	flag.StringVar(&c.host, "host", "", "address of this host")
	flag.StringVar(&c.transport, "transport", "softroce", "how this host reaches them: softroce or verbs")
	flag.StringVar(&c.policy, "policy", "numa", "how paths are chosen")
	flag.StringVar(&c.until, "until", "", "file that ends the run")
	flag.DurationVar(&c.kato, "kato", 3*time.Second, "keep alive timeout")
	flag.DurationVar(&c.delay, "delay", 4*time.Second, "reconnect delay")
	flag.Parse()
	c.paths = flag.Args()
	if err := c.run(); err != nil {
		fmt.Println("paths:", err)
		os.Exit(1)
	}
}

type config struct {
	nqn, host, policy, until, transport string
	kato, delay                         time.Duration
	paths                               []string
}

func (c *config) run() (err error) {
	addr, err := netip.ParseAddr(c.host)
	if err != nil {
		return err
	}
	dev, err := device.Open(c.transport, addr, 2)
	if err != nil {
		return err
	}
	h, err := host.New(host.Config{Device: dev, Shards: 2})
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	defer func() { err = errors.Join(err, h.Close(), dev.Close()) }()
	cfg, err := c.subsystem(h)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := multipath.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	err = c.load(ctx, s)
	for _, p := range s.Paths() {
		st := p.Status()
		fmt.Printf("# %v is %v: %d reconnects, %d requests, %d failed there, about %v each\n",
			p.Addr(), st.State, st.Reconnects, st.Completed, st.Errors, st.Latency.Round(time.Microsecond))
	}
	return errors.Join(err, s.Close())
}

// subsystem returns the configuration of the subsystem, which prints the events of the paths.
func (c *config) subsystem(h *host.Host) (cfg multipath.Config, err error) {
	nqn, err := nvmeof.AnyNQN(c.nqn)
	if err != nil {
		return cfg, err
	}
	cfg.NQN = nqn
	if cfg.Policy, err = multipath.ParsePolicy(c.policy); err != nil {
		return cfg, err
	}
	start := time.Now()
	cfg.Event = func(e multipath.Event) {
		why := ""
		if e.Err != nil {
			why = fmt.Sprintf(": %v", e.Err)
		}
		fmt.Printf("%6.2f %v is %v%s\n", time.Since(start).Seconds(), e.Path.Addr(), e.State, why)
	}
	for _, p := range c.paths {
		at, err := netip.ParseAddrPort(p)
		if err != nil {
			return cfg, err
		}
		cfg.Paths = append(cfg.Paths, multipath.PathConfig{
			Host:    h,
			Options: host.Options{Traddr: at.Addr(), Trsvcid: at.Port(), KeepAliveTmo: c.kato, NrIOQueues: 2},
			Timers:  multipath.Timers{ReconnectDelay: c.delay},
		})
	}
	return cfg, nil
}

// load keeps the namespace busy until the file appears.
func (c *config) load(ctx context.Context, s *multipath.Subsystem) error {
	ns, err := s.Namespace(ctx, 1)
	if err != nil {
		return err
	}
	l := newLoad(ns)
	l.start()
	fmt.Println("running")
	for l.failure() == nil {
		if _, err := os.Stat(c.until); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	l.stop()
	fmt.Printf("# %d requests, the slowest took %v\n", l.done.Load(), time.Duration(l.slowest.Load()).Round(time.Millisecond))
	return errors.Join(l.failure(), ns.Close())
}
