package discovery

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// replace replaces the records of a node, and reports which records that adds and removes overall.
func (e *engine) replace(n *node, now []Record) {
	now = distinct(now)
	for i := range now {
		r := &now[i]
		if k := e.records[r.key()]; k != nil {
			k.count++
			k.record = *r
			continue
		}
		e.records[r.key()] = &known{*r, 1}
		e.events = append(e.events, Event{Kind: Added, Record: *r})
	}
	for i := range n.records {
		k := e.records[n.records[i].key()]
		if k.count--; k.count == 0 {
			delete(e.records, n.records[i].key())
			e.events = append(e.events, Event{Kind: Removed, Record: k.record})
		}
	}
	n.records = now
}

// distinct returns the records without duplicates.
func distinct(all []Record) (out []Record) {
	seen := map[key]bool{}
	for i := range all {
		if k := all[i].key(); !seen[k] {
			seen[k] = true
			out = append(out, all[i])
		}
	}
	return out
}

// Reasons why a referral is not followed.
var (
	errDuplicate = errors.New("it returns the same information as the controller that refers to it")
	errDeep      = errors.New("too many referrals in a row")
	errMany      = errors.New("too many discovery controllers")
)

// walk visits the nodes from the seeds along all referrals, nearest first. It follows new referrals, and drops nodes
// that no referral leads to any more.
func (e *engine) walk(now time.Time) {
	var reached []*node
	for _, n := range e.nodes {
		if n.seed {
			n.depth = 0
			reached = append(reached, n)
		}
	}
	skipped := map[key]bool{}
	for i := 0; i < len(reached); i++ { // it grows
		for j := range reached[i].referrals {
			r := &reached[i].referrals[j]
			n, err := e.follow(now, r, reached[i].depth+1)
			switch {
			case err != nil:
				e.skip(reached[i], r, err, skipped)
			case slices.Contains(reached, n): // by a way that is not longer, or in a loop
			case reached[i].depth >= e.config.Depth: // a shorter way to it is gone
				e.skip(reached[i], r, e.tooDeep(), skipped)
			default:
				n.depth = reached[i].depth + 1
				reached = append(reached, n)
			}
		}
	}
	e.skipped = skipped
	for _, n := range slices.Clone(e.nodes) {
		if !slices.Contains(reached, n) {
			e.drop(n)
		}
	}
}

func (e *engine) tooDeep() error { return fmt.Errorf("%w: more than %d", errDeep, e.config.Depth) }

// skip reports a referral that is not followed, once.
func (e *engine) skip(by *node, r *Record, why error, skipped map[key]bool) {
	if k := r.key(); !skipped[k] {
		skipped[k] = true
		if !e.skipped[k] {
			e.events = append(e.events, Event{Kind: Skipped, At: by.at, Record: *r, Err: why})
		}
	}
}

// follow returns the node that a referral leads to, which it adds if it is new.
func (e *engine) follow(now time.Time, r *Record, depth int) (*node, error) {
	addr, err := address(&r.Entry)
	if err != nil {
		return nil, err
	}
	name := r.NQN()
	if name == "" {
		name = string(nvmeof.DiscoveryNQN)
	}
	nqn, err := nvmeof.AnyNQN(name)
	if err != nil {
		return nil, err
	}
	at := Endpoint{r.Scope, addr, nqn}
	if n := e.find(at); n != nil {
		return n, nil // possibly a loop
	}
	switch {
	case r.Entry.EFLAGS&capsule.DiscoveryDuplicate != 0:
		return nil, errDuplicate
	case depth > e.config.Depth:
		return nil, e.tooDeep()
	case len(e.nodes) >= e.config.Controllers:
		return nil, fmt.Errorf("%w: more than %d", errMany, e.config.Controllers)
	}
	return e.add(now, at, depth), nil
}

// drop removes a node.
func (e *engine) drop(n *node) {
	e.nodes = slices.DeleteFunc(e.nodes, func(o *node) bool { return o == n })
	e.replace(n, nil)
	if n.state == stateBusy || n.live {
		e.orders = append(e.orders, order{kind: orderDrop, id: n.id})
	}
}
