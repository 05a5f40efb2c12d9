package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/test/soak/internal/client"
)

// A hostState is the state of a host. Its fields are guarded by the lab's mu.
type hostState struct {
	plan   hostPlan
	index  int
	client *process
	attach *process // nil: the client is the host
	ending atomic.Bool

	ready    bool           // the client is connected
	now      *client.Counts // of the running client
	before   client.Counts  // of earlier clients
	lives    int
	progress time.Time // when the request counters last changed
	requests uint64    // of all its clients
}

// spec returns the specification of a host's client.
func (l *lab) spec(h *hostState) (client.Spec, error) {
	p := &h.plan
	s := client.Spec{Name: p.name, Addr: l.addrs.at(hostBase + h.index), HostNQN: p.hostNQN(), HostID: l.hostID(h), NQN: subsystemNQN(p.nqn),
		Policy: p.policy, Depth: 6, Pace: l.o.pace, Seed: l.o.seed + uint64(h.lives)<<8 + uint64(h.index), Killed: h.lives > 0 || l.totals.Pieces > 1,
		Fence: fence, Timeout: keepAlive, Paths: l.paths(p)}
	var err error
	if s.Key, err = l.key(p, 0); err != nil {
		return s, err
	}
	if s.CtrlKey, err = l.key(p, 1); err != nil {
		return s, err
	}
	s.Key, s.CtrlKey = strings.TrimSpace(s.Key), strings.TrimSpace(s.CtrlKey)
	if p.attach {
		s.Socket = l.socket(h)
	}
	sharers, mine := 0, 0
	for _, o := range l.hosts {
		if o.plan.target == p.target && o.plan.nqn == p.nqn {
			if o == h {
				mine = sharers
			}
			sharers++
		}
	}
	for _, x := range l.spaces {
		if x.target != p.target || x.nqn != p.nqn {
			continue
		}
		count := x.blocks() / sharers
		s.Spaces = append(s.Spaces, client.Space{NSID: x.nsid, Number: x.number, Table: l.table(x), BlockSize: x.blockSize, Blocks: x.blocks(),
			First: mine * count, Count: count, Workers: 2})
	}
	return s, nil
}

func (l *lab) hostID(h *hostState) string {
	return fmt.Sprintf("5bb9f4a2-6d3e-4c7b-9d57-1a0f6f0e5b%02x", h.index+1)
}

func (l *lab) socket(h *hostState) string { return filepath.Join(l.sockets, h.plan.name+".nbd") }

func (l *lab) paths(p *hostPlan) []netip.Addr {
	if p.direct {
		return []netip.Addr{l.addrs.listener(p.target, 1), l.addrs.listener(p.target, 2)}
	}
	return []netip.Addr{l.addrs.front(p.target, 1), l.addrs.front(p.target, 2)}
}

// startHost starts a host's processes.
func (l *lab) startHost(index int, h *hostState) error {
	h.index = index
	if h.plan.attach {
		if err := l.startAttach(h); err != nil {
			return err
		}
		for limit := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if _, err := os.Stat(l.socket(h)); err == nil {
				break
			}
			if time.Now().After(limit) {
				return fmt.Errorf("attach of %s serves nothing:\n%s", h.plan.name, strings.Join(h.attach.lines(), "\n"))
			}
		}
	}
	return l.startClient(h)
}

func (l *lab) startAttach(h *hostState) error {
	p := &h.plan
	var paths []string
	for _, a := range l.paths(p) {
		paths = append(paths, a.String())
	}
	args := []string{"attach", "-t", "rdma", "-a", strings.Join(paths, ","), "-n", string(subsystemNQN(p.nqn)), "--socket", l.socket(h),
		"-w", l.addrs.at(hostBase + h.index).String(), "-q", string(p.hostNQN()), "-I", l.hostID(h), "-k", fmt.Sprint(keepAlive.Seconds()), "-c", "2"}
	if p.keys >= 1 {
		args = append(args, "-S", "file:"+l.path("files", p.name+".key"))
	}
	if p.keys >= 2 {
		args = append(args, "-C", "file:"+l.path("files", p.name+".ctrl.key"))
	}
	a, err := start("attach "+p.name, nil, nil, l.program, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	h.attach = a
	return err
}

func (l *lab) startClient(h *hostState) error {
	spec, err := l.spec(h)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	l.mu.Lock()
	h.ready, h.progress = false, time.Now()
	h.lives++
	l.mu.Unlock()
	p, err := start("host "+h.plan.name, func(s string) { l.reported(h, s) }, nil, self, clientRole)
	if err != nil {
		return err
	}
	l.mu.Lock()
	h.client = p
	l.mu.Unlock()
	return json.NewEncoder(p.input).Encode(spec)
}

// reported handles a line of a client's report.
func (l *lab) reported(h *hostState, line string) {
	var r client.Report
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		l.violation("client of %s says %q", h.plan.name, line)
		return
	}
	if r.Event != "" {
		l.story.add(h.plan.name, "%s", r.Event)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Ready {
		h.ready, h.progress = true, time.Now()
	}
	if r.Counts != nil {
		h.now = r.Counts
		if n := h.before.Requests() + h.now.Requests(); n > h.requests {
			h.requests, h.progress = n, time.Now()
		}
	}
	if r.Violation != "" && !h.ending.Load() {
		l.violation("%s: %s", h.plan.name, r.Violation)
	}
}

// counts returns the sum over all clients of a host. The caller holds mu.
func (h *hostState) counts() client.Counts {
	var c client.Counts
	c.Add(&h.before)
	if h.now != nil {
		c.Add(h.now)
	}
	return c
}

// killClient kills a host's client; another is started.
func (l *lab) killClient(h *hostState) {
	h.client.kill()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.now != nil {
		h.before.Add(h.now)
		h.now = nil
	}
}
