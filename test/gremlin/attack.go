package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"time"
)

// An arena is a target, the honest host beside it and the addresses of attackers.
type arena struct {
	o         *options
	addresses *addresses // of attackers
	victim    *victim
	honest    *beside
	newcomer  *beside
	at        netip.Addr // of the honest host, if it is one of this program
	blockSize int        // of namespace 1
}

// A result is a row of the printed table.
type result struct {
	attack
	sent, got     uint64  // packets
	crowded       float64 // the share of all processors that the attacker took from the others
	before        sample
	during, after sample
	newcomer      time.Duration // the longest time to connect
	newcomerErr   error
	left          []string
	took          time.Duration // until nothing was left over
	skipped       string
	remarks       string
	faults        []string // the bounds that were exceeded
}

func attackTarget(ctx context.Context, o options, out io.Writer) error {
	if len(o.selected()) == 0 {
		return errors.New("no attack has such a name; -list has them all")
	}
	a, err := newArena(ctx, &o)
	if err != nil {
		return err
	}
	defer a.close()
	if err := yieldProcessors(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s at %v, seed %d, %v each; the first MiB of namespace 1 is overwritten\n\n", o.nqn, o.target, o.seed, o.seconds)
	t := newTable(out)
	bad := 0
	for _, x := range o.selected() {
		r, err := a.suffer(ctx, x)
		for try := 1; err == nil && len(r.faults) > 0 && try < o.tries; try++ {
			t.row(r)
			r, err = a.suffer(ctx, x)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		if t.row(r); len(r.faults) > 0 {
			bad++
		}
		if o.verbose && r.remarks != "" {
			fmt.Fprintln(out, "   ", r.remarks)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d attacks went beyond what is allowed", bad)
	}
	return nil
}

func newArena(ctx context.Context, o *options) (a *arena, err error) {
	a = &arena{o: o}
	if a.addresses, err = addressesFor(o.target.Addr(), o.from); err != nil {
		return nil, err
	}
	if o.nqn == "" {
		if o.nqn, err = discoverNQN(ctx, o, a.addresses); err != nil {
			return nil, err
		}
	}
	if a.victim, err = newVictim(ctx, o); err != nil {
		return nil, err
	}
	s := o.setting(newcomersFrom)
	if a.newcomer, err = openBeside(ctx, s); err != nil {
		return nil, fmt.Errorf("newcomers: %w", err)
	}
	s.First = honestFrom
	if a.honest, err = openBeside(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("the honest host: %w", err), a.close())
	}
	r, err := a.honest.ask(question{Do: doHonest, Honest: o.honest})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the honest host: %w", err), a.close())
	}
	a.at = r.At
	first, err := a.newcomer.ask(question{Do: doArrive})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a newcomer, without any attack: %w", err), a.close())
	}
	a.blockSize = first.BlockSize
	return a, nil
}

// First addresses, in the loopback network, of the honest hosts and newcomers. Attackers use those below.
const (
	newcomersFrom = 20000
	honestFrom    = 40000
	neighbourFrom = 50000
)

// setting returns what a helper process needs to know. Its addresses begin at index first.
func (o *options) setting(first int) setting {
	s := setting{Target: o.target, NQN: o.nqn, HostNQN: o.honestNQN, From: o.from, First: first}
	if !o.honestKey.IsZero() {
		s.Key = o.honestKey.Text()
	}
	return s
}

func (a *arena) close() (err error) {
	for _, b := range []*beside{a.honest, a.newcomer} {
		if b != nil {
			err = errors.Join(err, b.close())
		}
	}
	return err
}

// again reconnects an honest host that has lost its target, for the next attack.
func (a *arena) again() error {
	_, err := a.honest.ask(question{Do: doAgain})
	return err
}

// window returns the honest host's results since the last call.
func (a *arena) window() (sample, error) {
	r, err := a.honest.ask(question{Do: doWindow})
	return r.Sample, err
}

// alone measures the honest host for a while without an attack, and the processor time used meanwhile.
func (a *arena) alone(ctx context.Context) (s sample, used crowding, err error) {
	before, err := crowdingOf(a.others())
	if err != nil {
		return s, used, err
	}
	if _, err := a.window(); err != nil {
		return s, used, err
	}
	if err := wait(ctx, a.o.seconds/2); err != nil {
		return s, used, err
	}
	if s, err = a.window(); err != nil {
		return s, used, err
	}
	after, err := crowdingOf(a.others())
	return s, after.since(before), err
}

// suffer runs one attack against the target and measures its effects.
func (a *arena) suffer(ctx context.Context, x attack) (res result, err error) {
	res.attack = x
	if err := a.again(); err != nil {
		return res, fmt.Errorf("the honest host does not connect: %w", err)
	}
	held, err := a.victim.holdings(ctx)
	if err != nil {
		return res, err
	}
	var quiet crowding
	if res.before, quiet, err = a.alone(ctx); err != nil {
		return res, err
	}
	r := &raid{o: a.o, addresses: a.addresses, honest: a.at, random: newRandom(a.o.seed, x.name), ctx: ctx, blockSize: a.blockSize}
	r.end = time.Now().Add(a.o.seconds)
	defer r.close()
	start, err := crowdingOf(a.others())
	if err != nil {
		return res, err
	}
	attacked := make(chan error, 1)
	go func() { attacked <- r.attack(x) }() // ends with the raid
	res.newcomer, res.newcomerErr, err = a.newcomers(ctx, attacked)
	end, unread := crowdingOf(a.others())
	if unread != nil {
		return res, unread
	}
	res.crowded = end.since(start).share(quiet, runtime.NumCPU())
	during, gone := a.window()
	if gone != nil {
		return res, gone
	}
	res.during = during
	res.sent, res.got = r.packets()
	res.remarks = r.remarks()
	if errors.Is(err, errSkipped) {
		res.skipped = err.Error()
		return res, nil
	}
	if err != nil {
		res.faults = append(res.faults, fmt.Sprintf("the attack ended early: %v", err))
	}
	if res.left, res.took, err = a.victim.left(ctx, held, a.o.rest); err != nil {
		res.faults = append(res.faults, fmt.Sprintf("the target is dead: %v", err))
	}
	if err := a.again(); err != nil {
		res.faults = append(res.faults, fmt.Sprintf("the honest host does not come back: %v", err))
		return res, nil
	}
	if res.after, _, err = a.alone(ctx); err != nil {
		return res, err
	}
	if _, err := a.newcomer.ask(question{Do: doArrive}); err != nil {
		res.faults = append(res.faults, fmt.Sprintf("nobody can connect afterwards: %v", err))
	}
	res.judge(&a.o.bounds)
	return res, nil
}

// others returns the processes of the honest host and, if it is on this machine, of the target.
func (a *arena) others() []int {
	all := []int{a.honest.cmd.Process.Pid}
	if a.victim.pid != 0 {
		all = append(all, a.victim.pid)
	}
	return all
}

// newcomers connects new hosts, one after the other, until the attack has ended.
func (a *arena) newcomers(ctx context.Context, attacked <-chan error) (longest time.Duration, fault, err error) {
	pause := min(a.o.seconds/10, time.Second)
	for {
		select {
		case err := <-attacked:
			return longest, fault, err
		case <-time.After(pause):
		}
		r, err := a.newcomer.ask(question{Do: doArrive})
		if longest = max(longest, r.Took); err != nil && fault == nil {
			fault = err
		}
	}
}

// newRandom returns random numbers that depend on the seed and the attack's name only, not on which other attacks run.
func newRandom(seed uint64, attack string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(attack))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// judge compares the measurements with the bounds. The bound of the rate is scaled by the share of the processors that
// the attacker left to the others: an attacker on another machine would take none.
func (r *result) judge(b *bounds) {
	fault := func(format string, args ...any) { r.faults = append(r.faults, fmt.Sprintf(format, args...)) }
	if ratio, left := r.ratio(), 1-r.crowded; ratio < b.ratio*left && r.name != neighbourName {
		fault("the honest host kept %.2f of its rate with %.2f of the processors", ratio, left)
	}
	if r.after.Rate < b.ratio*r.before.Rate {
		fault("afterwards it had %.2f of its rate", r.after.Rate/r.before.Rate)
	}
	if b.p99 > 0 && r.during.P99 > b.p99 {
		fault("its p99 was %v", r.during.P99.Round(time.Microsecond))
	}
	if r.during.Errors > 0 {
		fault("%d of its operations failed: %v", r.during.Errors, r.during.Err)
	}
	if r.newcomerErr != nil {
		fault("a newcomer: %v", r.newcomerErr)
	} else if b.newcomer > 0 && r.newcomer > b.newcomer {
		fault("a newcomer took %v", r.newcomer.Round(time.Millisecond))
	}
	if len(r.left) > 0 {
		fault("left behind")
	}
}

// ratio returns the honest host's rate during the attack relative to its rate without one. That is measured before and
// after the attack, because the machine also does other work.
func (r *result) ratio() float64 {
	quiet := r.before.Rate
	if r.after.Rate > 0 {
		quiet = (r.before.Rate + r.after.Rate) / 2
	}
	if quiet == 0 {
		return 1
	}
	return r.during.Rate / quiet
}
