package group

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// command executes the first of the administrator's commands. It is answered when the store has the result.
func (e *Engine) command() *state.Txn {
	for len(e.commands) > 0 {
		c := &e.commands[0]
		t, err := administrator{e}.execute(*c)
		if t != nil {
			c.begun = true
			return t
		}
		e.act(Answer{c.Token, err})
		e.commands = e.commands[1:]
	}
	return nil
}

// An administrator is the part of an engine that executes commands.
type administrator struct{ *Engine }

// execute returns the transaction of a command, or nil if nothing has to change.
func (e administrator) execute(c Command) (*state.Txn, error) {
	m := e.view.member(c.Gateway)
	if m == nil {
		if c.Kind == RemoveGateway && c.begun {
			return nil, nil // already the case
		}
		return nil, fmt.Errorf("the group has no gateway %s", c.Gateway)
	}
	if m.err != nil {
		return nil, m.err
	}
	switch c.Kind {
	case DrainGateway, UndrainGateway:
		return e.orderDrain(c.Gateway, c.Kind == DrainGateway), nil
	case FailGateway: // done by expel
		if m.value.Incarnation == e.inc {
			return nil, fmt.Errorf("gateway %s is this one: stop it or drain it instead", c.Gateway)
		}
		return nil, nil
	case RemoveGateway:
		return e.removal(m)
	case MoveGroup:
		return e.orderMove(c, m)
	}
	return nil, fmt.Errorf("unknown command %d", c.Kind)
}

func (e administrator) orderDrain(name string, drained bool) *state.Txn {
	key := orderKey(name)
	if e.view.drained(name) == drained {
		return nil
	}
	return &state.Txn{
		If:   []state.Compare{e.view.orders.is(key)},
		Then: []state.Op{put(key, encode(Order{version, drained}, e.view.orders.raw(key)))},
	}
}

func (e administrator) orderMove(c Command, m *entry[Member]) (*state.Txn, error) {
	g, o := e.groups.find(c.Group), e.view.owner(c.Group)
	move := e.view.move(c.Group)
	switch {
	case g == nil:
		return nil, fmt.Errorf("the group has no ANA group %d", c.Group)
	case o == nil || o.value.Phase != Owned:
		return nil, fmt.Errorf("ANA group %d has no owner at the moment: try again when a gateway has taken it", c.Group)
	case o.value.Owner == c.Gateway, move != nil && move.value.To == c.Gateway:
		return nil, nil
	case !e.alive(m) || m.value.Leaving || e.view.drained(c.Gateway):
		return nil, fmt.Errorf("gateway %s is drained, is leaving the group, or does not run", c.Gateway)
	case !(&candidate{entry: m}).takes(g):
		return nil, fmt.Errorf("ANA group %d (fencing %q) cannot be served by gateway %s", c.Group, g.Backend, c.Gateway)
	}
	key := moveKey(c.Group)
	return &state.Txn{
		If:   []state.Compare{{Key: o.Key, Revision: o.Revision}, e.view.moves.is(key)},
		Then: []state.Op{put(key, encode(Move{Version: version, To: c.Gateway, Must: true, Reason: ReasonOperator}, e.view.moves.raw(key)))},
	}, nil
}

// removal forgets a gateway that has ended. Its fences are no longer renewed: the administrator vouches that nothing of
// it is left.
func (e administrator) removal(m *entry[Member]) (*state.Txn, error) {
	name := m.value.Name
	var c change
	if !m.value.Ended {
		return nil, fmt.Errorf("gateway %s is alive: stop it first, or use gateway fail", name)
	}
	for i := range e.view.fences {
		f := &e.view.fences[i]
		if f.value.Name != name || f.err != nil {
			continue
		}
		if e.view.owns(f.value.Incarnation) {
			return nil, fmt.Errorf("gateway %s still owns ANA groups: try again when other gateways have taken them", name)
		}
		if next := f.value; !next.Gone {
			if c.full() {
				return c.txn(), nil // the gateway remains until the other fence records are noted, too
			}
			next.Gone = true
			c.compare(f.Key, f.Revision)
			c.put(f.Key, encode(next, f.Value))
		}
	}
	if c.full() {
		return c.txn(), nil
	}
	c.remove(m.Key, m.Revision)
	for _, key := range []string{orderKey(name), beatKey(name)} {
		r := e.view.orders.revision(key) + e.view.beats.revision(key) // one of them is 0
		if r != 0 {
			c.remove(key, r)
		}
	}
	for i := range e.view.slots {
		if s := &e.view.slots[i]; s.value.Name == name {
			c.remove(s.Key, s.Revision)
		}
	}
	return c.txn(), nil
}
