package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/peer"
)

// An attack is a row of the catalogue.
type attack struct {
	name, sent string
	// run attacks until the raid is over. It returns an error only if the attack could not be carried out, not for what
	// the target did.
	run func(r *raid) error
}

// A raid is one attack in progress.
type raid struct {
	o         *options
	addresses *addresses
	honest    netip.Addr // whose address packets can be forged from; not valid: none
	random    *rand.Rand
	end       time.Time
	ctx       context.Context
	endpoints []*peer.Endpoint
	forged    []*peer.Socket
	said      []string
	blockSize int // of namespace 1
	done      int // counts units of the attack, such as mutations
}

// errSkipped is returned by an attack that does not apply to this target.
var errSkipped = errors.New("skipped")

// attack runs the attack and, with -polite, disconnects afterwards.
func (r *raid) attack(x attack) error {
	err := x.run(r)
	for _, e := range r.endpoints {
		if r.o.polite && err == nil {
			for _, c := range e.Conns() {
				c.Answer = nil
			}
			err = e.Leave()
		}
	}
	return err
}

func (r *raid) over() bool { return !time.Now().Before(r.end) || r.ctx.Err() != nil }

// sooner returns at or the end of the raid, whichever is earlier.
func (r *raid) sooner(at time.Time) time.Time {
	if r.end.Before(at) {
		return r.end
	}
	return at
}

// until calls act again and again while the raid lasts.
func (r *raid) until(act func() error) error {
	for !r.over() {
		if err := act(); err != nil {
			return err
		}
	}
	return nil
}

// say adds a remark, which is printed on request in addition to the table.
func (r *raid) say(format string, args ...any) { r.said = append(r.said, fmt.Sprintf(format, args...)) }

// open opens an endpoint for an attacker at an address of its own.
func (r *raid) open() (*peer.Endpoint, error) {
	e, err := use(r.addresses, func(a netip.Addr) (*peer.Endpoint, error) { return peer.Open(a, r.random.Uint64()) })
	if err != nil {
		return nil, err
	}
	e.To, e.Port = r.o.target.Addr(), r.o.target.Port()
	r.endpoints = append(r.endpoints, e)
	return e, nil
}

// name returns a host of its own, or the host that is allowed. Its keep alive timeout is short, so that the target soon
// drops it.
func (r *raid) name() peer.Name {
	n := peer.Name{Subsystem: r.o.nqn, Host: r.o.hostNQN, KATO: 2000}
	binary.LittleEndian.PutUint64(n.ID[:], r.random.Uint64())
	binary.LittleEndian.PutUint64(n.ID[8:], r.random.Uint64())
	if n.Host == "" {
		n.Host = fmt.Sprintf("nqn.2014-08.org.nvmexpress:uuid:%08x-%04x-4%03x-8%03x-%012x",
			r.random.Uint32(), r.random.IntN(1<<16), r.random.IntN(1<<12), r.random.IntN(1<<12), r.random.Uint64N(1<<48))
	}
	return n
}

// stranger returns a host that connects to the discovery controller.
func (r *raid) stranger() peer.Name {
	n := r.name()
	n.Subsystem = capsule.DiscoveryNQN
	return n
}

// login creates an association with one I/O queue from a new attacker.
func (r *raid) login() (peer.Session, error) {
	e, err := r.open()
	if err != nil {
		return peer.Session{}, err
	}
	return e.Login(r.name(), 1)
}

// packets returns the number of packets sent and received.
func (r *raid) packets() (sent, got uint64) {
	for _, e := range r.endpoints {
		sent, got = sent+e.Sent, got+e.Received
	}
	for _, s := range r.forged {
		sent += s.Sent
	}
	return sent, got
}

func (r *raid) close() {
	for _, e := range r.endpoints {
		_ = e.Close()
	}
	for _, s := range r.forged {
		_ = s.Close()
	}
}

// selected returns the attacks whose names match -only and not -skip.
func (o *options) selected() (out []attack) {
	for _, a := range catalogue() {
		if o.only.MatchString(a.name) && (o.skip == nil || !o.skip.MatchString(a.name)) {
			out = append(out, a)
		}
	}
	return out
}

func catalogue() []attack {
	var all []attack
	for _, part := range [][]attack{sharing(), floods(), inputs(), mutations()} {
		all = append(all, part...)
	}
	return all
}

func (r *raid) remarks() string { return strings.Join(r.said, "; ") }
