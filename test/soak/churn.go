package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/test/soak/internal/client"
)

// An action is a change that is made to a target while hosts work.
type action struct {
	name    string
	lasting bool // only on the target "lasting"
	do      func(*churnHost, context.Context, *targetState) error
}

var actions = []action{
	{"ANA state", false, (*churnHost).flip},
	{"pause", false, (*churnHost).pause},
	{"disconnect", false, (*churnHost).disconnect},
	{"namespace", true, (*churnHost).namespace},
	{"apply", true, (*churnHost).apply},
	{"listener", true, (*churnHost).listener},
	{"connections", true, (*churnHost).connections},
	{"false keys", true, (*churnHost).falseKeys},
	{"silence", false, (*churnHost).silence},
	{"cut", false, (*churnHost).cut},
}

// A churnHost makes the changes. It connects and disconnects often.
type churnHost struct {
	*lab
	random *rand.Rand
	device *softroce.Device
	host   *host.Host
}

func (l *lab) newChurn(random *rand.Rand) (*churnHost, error) {
	d, err := softroce.Open(softroce.Config{Addr: l.addrs.at(churnHost1)})
	if err != nil {
		return nil, err
	}
	h, err := host.New(host.Config{Device: d})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &churnHost{l, random, d, h}, nil
}

func (c *churnHost) close() { _ = errors.Join(c.host.Close(), c.device.Close()) }

func (c *churnHost) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.random.Int64N(int64(most-least)))
}

// flip sets the ANA state of a listener and sets it back to optimized. In between there may be no usable path.
func (c *churnHost) flip(ctx context.Context, t *targetState) error {
	states := []string{"non-optimized", "inaccessible", "change", "optimized"}
	id := 1 + c.random.IntN(2)
	set := func(ctx context.Context, state string) error {
		body := fmt.Sprintf(`{"group": 1, "state": %q}`, state)
		return t.api.Do(ctx, "PUT", control.Path("listeners", fmt.Sprint(id), "ana-groups"), nil, []byte(body), nil)
	}
	err := set(ctx, states[c.random.IntN(len(states))])
	pause(ctx, c.between(100*time.Millisecond, 3*time.Second))
	return errors.Join(err, set(context.WithoutCancel(ctx), "optimized"))
}

// spaceOf returns a random verified namespace of a target.
func (c *churnHost) spaceOf(t *targetState) *space {
	for {
		if s := c.spaces[c.random.IntN(len(c.spaces))]; s.target == t.name {
			return s
		}
	}
}

func (c *churnHost) pause(ctx context.Context, t *targetState) error {
	s := c.spaceOf(t)
	route := func(what string) string {
		return control.Path("subsystems", string(subsystemNQN(s.nqn)), "namespaces", fmt.Sprint(s.nsid), what)
	}
	err := t.api.Do(ctx, "POST", route("pause"), nil, []byte(`{"limit": "3s"}`), nil)
	pause(ctx, c.between(50*time.Millisecond, 4*time.Second)) // the pause may reach its limit meanwhile
	if resumed := t.api.Do(context.WithoutCancel(ctx), "POST", route("resume"), nil, nil, nil); err == nil && resumed != nil {
		c.story.add("churn", "resume: %v", resumed)
	}
	return err
}

func (c *churnHost) disconnect(ctx context.Context, t *targetState) error {
	var all []control.Controller
	if err := t.api.Do(ctx, "GET", "/v1/controllers", nil, nil, &all); err != nil || len(all) == 0 {
		return err
	}
	x := all[c.random.IntN(len(all))]
	return t.api.Do(ctx, "DELETE", control.Path("subsystems", string(x.Subsystem), "controllers", fmt.Sprint(x.ID)), nil, nil, nil)
}

// connect connects to a controller of the subsystem that is changed.
func (c *churnHost) connect(ctx context.Context, t *targetState) (*host.Controller, error) {
	return c.host.Connect(ctx, host.Options{Traddr: c.addrs.listener(t.name, 1+c.random.IntN(2)), NQN: subsystemNQN(churnNQN), NrIOQueues: 1, KeepAliveTmo: keepAlive})
}

// namespace adds a namespace, uses it and removes it.
func (c *churnHost) namespace(ctx context.Context, t *targetState) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	nsid := 2 + c.random.IntN(20)
	list := control.Path("subsystems", string(subsystemNQN(churnNQN)), "namespaces")
	if err := t.api.Do(ctx, "POST", list, nil, fmt.Appendf(nil, `{"nsid": %d, "memory": {"size": "1MiB"}}`, nsid), nil); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, t.api.Do(context.WithoutCancel(ctx), "DELETE", list+fmt.Sprintf("/%d", nsid), []string{"force"}, nil, nil))
	}()
	ctrl, err := c.connect(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ctrl.Disconnect(context.WithoutCancel(ctx))) }()
	n, err := ctrl.Namespace(ctx, capsule.NSID(nsid))
	if err != nil {
		return err
	}
	wrote, got := bytes.Repeat([]byte{byte(nsid)}, 128<<10), make([]byte, 128<<10)
	if _, err := n.ReadAtContext(ctx, got, 0); err != nil {
		return err
	}
	if !bytes.Equal(got, make([]byte, len(got))) {
		c.violation("a new namespace in memory does not read as zeroes")
	}
	if _, err := n.WriteAtContext(ctx, wrote, 4096); err != nil {
		return err
	}
	if _, err := n.ReadAtContext(ctx, got, 4096); err != nil {
		return err
	}
	if !bytes.Equal(got, wrote) {
		c.violation("a new namespace does not return what was written")
	}
	return nil
}

// apply applies another configuration to the target, and then the former again.
func (c *churnHost) apply(ctx context.Context, t *targetState) error {
	var was json.RawMessage
	if err := t.api.Do(ctx, "GET", "/v1/config", nil, nil, &was); err != nil {
		return err
	}
	doc, _, err := config.Parse("", was)
	if err != nil {
		return err
	}
	doc.Referrals = append(doc.Referrals, &config.Referral{Address: config.Address{AddrPort: netip.MustParseAddrPort("192.0.2.9:4420")}})
	for _, s := range doc.Subsystems {
		s.Hosts = append(s.Hosts, &config.Host{NQN: "nqn.2026-11.org.example:another"})
	}
	changed, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	err = t.api.Do(ctx, "PUT", "/v1/config", nil, changed, nil)
	pause(ctx, c.between(0, 2*time.Second))
	return errors.Join(err, t.api.Do(context.WithoutCancel(ctx), "PUT", "/v1/config", nil, was, nil))
}

// listener removes a listener and adds it again.
func (c *churnHost) listener(ctx context.Context, t *targetState) error {
	id := 1 + c.random.IntN(2)
	if err := t.api.Do(ctx, "DELETE", control.Path("listeners", fmt.Sprint(id)), nil, nil, nil); err != nil {
		return err
	}
	pause(ctx, c.between(100*time.Millisecond, 3*time.Second))
	body := fmt.Appendf(nil, `{"id": %d, "address": %q}`, id, c.addrs.listener(t.name, id))
	return t.api.Do(context.WithoutCancel(ctx), "POST", control.Path("listeners"), nil, body, nil)
}

// connections connects and disconnects 10 to 29 times.
func (c *churnHost) connections(ctx context.Context, t *targetState) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for range 10 + c.random.IntN(20) {
		ctrl, err := c.connect(ctx, t)
		if err != nil {
			return err
		}
		if err := ctrl.Disconnect(ctx); err != nil {
			return err
		}
	}
	return nil
}

// falseKeys connects with a key that is not the host's, which must fail.
func (c *churnHost) falseKeys(ctx context.Context, t *targetState) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, h := range c.hosts {
		if h.plan.target != t.name || h.plan.keys == 0 {
			continue
		}
		for range 8 {
			key, err := auth.NewKey(auth.HashSHA256, bytes.Repeat([]byte{7}, 32))
			if err != nil {
				return err
			}
			ctrl, err := c.host.Connect(ctx, host.Options{Traddr: c.addrs.listener(t.name, 1), NQN: subsystemNQN(h.plan.nqn), HostNQN: h.plan.hostNQN(), NrIOQueues: 1, DHCHAPSecret: key})
			if err == nil {
				c.violation("a host with a false key was admitted as %s", h.plan.name)
				return ctrl.Disconnect(ctx)
			}
		}
	}
	return nil
}

// silence stops a target with SIGSTOP for a while, shorter or longer than the hosts' timeouts.
func (c *churnHost) silence(ctx context.Context, t *targetState) error {
	t.mu.Lock() // keeps the target from being killed
	defer t.mu.Unlock()
	t.proc.signal(syscall.SIGSTOP)
	pause(ctx, c.between(100*time.Millisecond, 7*time.Second))
	t.proc.signal(syscall.SIGCONT)
	return nil
}

// cut drops all packets from and to one listener for a while.
func (c *churnHost) cut(ctx context.Context, t *targetState) error {
	at := c.addrs.listener(t.name, 1+c.random.IntN(2))
	c.relay.Cut(at, true)
	pause(ctx, c.between(100*time.Millisecond, 10*time.Second))
	c.relay.Cut(at, false)
	return nil
}

func (l *lab) countError(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Errors[what+": "+client.Kind(err.Error())]++
}
