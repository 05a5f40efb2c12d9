package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Sizes of all namespaces, in bytes.
const (
	spaceSize = 16 << 20
	keepAlive = 2 * time.Second
	// fence is the time after which a target has ended all commands of a host that is gone: three times the keep alive
	// timeout (NVMe base 2.1, 9.6), and a second for packets in flight.
	fence = 3*keepAlive + time.Second
)

// A space is a namespace that is verified.
type space struct {
	target, nqn string
	nsid        uint32
	number      uint32
	blockSize   int
	memory      bool
	options     string // of a file store
}

func (s *space) name() string { return fmt.Sprintf("%s-%s-%d", s.target, s.nqn, s.nsid) }

func (s *space) blocks() int { return spaceSize / s.blockSize }

// spaces returns all of them. The namespaces of the target "kept", which is killed, are files. The target "lasting"
// lives as long as the soak.
func spaces() []*space {
	all := []*space{
		{target: "kept", nqn: "disk", nsid: 1, blockSize: 512, options: "reservations"},
		{target: "kept", nqn: "disk", nsid: 2, blockSize: 4096, options: "buffered: true, thin: true"},
		{target: "kept", nqn: "keyed", nsid: 1, blockSize: 4096},
		{target: "lasting", nqn: "memory", nsid: 1, blockSize: 4096, memory: true},
		{target: "lasting", nqn: "memory", nsid: 2, blockSize: 512, options: "thin: true"},
	}
	for i, s := range all {
		s.number = uint32(i + 1)
	}
	return all
}

// A hostPlan describes a host.
type hostPlan struct {
	name        string
	target, nqn string
	attach      bool          // uses nvmeof attach instead of the library
	direct      bool          // bypasses the relay
	keys        int           // 0: none; 1: the host's; 2: the target's too
	policy      string        // path policy
	killEvery   time.Duration // 0: never
}

func hostPlans() []hostPlan {
	return []hostPlan{
		{name: "lib-killed", target: "kept", nqn: "disk", policy: "round-robin", killEvery: 150 * time.Second},
		{name: "nbd-killed", target: "kept", nqn: "disk", attach: true, keys: 1, killEvery: 220 * time.Second},
		{name: "lib-keyed", target: "kept", nqn: "keyed", keys: 2, policy: "queue-depth"},
		{name: "lib-memory", target: "lasting", nqn: "memory", policy: "latency"},
		{name: "nbd-memory", target: "lasting", nqn: "memory", attach: true, keys: 2},
		{name: "lib-direct", target: "lasting", nqn: "memory", direct: true},
	}
}

func (h *hostPlan) hostNQN() nvmeof.NQN {
	return nvmeof.NQN("nqn.2026-11.org.example:host-" + h.name)
}

func subsystemNQN(name string) nvmeof.NQN { return nvmeof.NQN("nqn.2026-11.org.example:soak-" + name) }

// churnNQN is the subsystem whose namespaces and hosts are added and removed.
const churnNQN = "churn"

// addresses are the addresses of one run, in a /24 network of the loopback.
type addresses struct{ net [3]byte }

func (a addresses) at(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{a.net[0], a.net[1], a.net[2], byte(n)})
}

// The first values of the last byte of addresses: listeners, their fronts, hosts, and their aliases.
const (
	listenerBase = 1
	frontBase    = 11
	hostBase     = 21
	aliasBase    = 41
	churnHost1   = 61
	guestAlias   = 71
)

// targets returns the names of the targets; each has two listeners.
func targets() []string { return []string{"kept", "lasting"} }

// listener returns the address of listener 1 or 2 of a target.
func (a addresses) listener(target string, id int) netip.Addr {
	return a.at(listenerBase + a.offset(target, id))
}

func (a addresses) front(target string, id int) netip.Addr {
	return a.at(frontBase + a.offset(target, id))
}

func (addresses) offset(target string, id int) int {
	for i, t := range targets() {
		if t == target {
			return 2*i + id - 1
		}
	}
	return -1
}

// document returns the configuration of a target.
func (l *lab) document(target string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nlimits: {shards: 1}\nlisteners:\n")
	for id := 1; id <= 2; id++ {
		fmt.Fprintf(&b, "  - {id: %d, address: %v}\n", id, l.addrs.listener(target, id))
	}
	b.WriteString("subsystems:\n")
	last := ""
	for _, s := range l.spaces {
		if s.target != target {
			continue
		}
		if s.nqn != last {
			last = s.nqn
			fmt.Fprintf(&b, "  - nqn: %s\n    state: %s\n    hosts:\n", subsystemNQN(s.nqn), l.path("files", s.nqn+".state"))
			for _, h := range l.hosts {
				if h.plan.target == target && h.plan.nqn == s.nqn {
					b.WriteString("      - {nqn: '" + string(h.plan.hostNQN()) + "'" + l.keyFiles(&h.plan) + "}\n")
				}
			}
			b.WriteString("    namespaces:\n")
		}
		b.WriteString("      - " + l.namespace(s) + "\n")
	}
	if target == "kept" && l.o.guest {
		fmt.Fprintf(&b, "  - nqn: %s\n    allow-any-host: true\n    namespaces: [{nsid: 1, file: {path: %s, size: %d}}]\n", subsystemNQN(guestNQN), l.path("files", "guest.img"), spaceSize)
	}
	if target == "lasting" {
		fmt.Fprintf(&b, "  - nqn: %s\n    allow-any-host: true\n    namespaces: [{nsid: 1, memory: {size: 1MiB}}]\n", subsystemNQN(churnNQN))
	}
	return b.String()
}

func (l *lab) namespace(s *space) string {
	if s.memory {
		return fmt.Sprintf("{nsid: %d, block-size: %d, memory: {size: %d}}", s.nsid, s.blockSize, spaceSize)
	}
	outside, inside := "", s.options
	if s.options == "reservations" {
		outside, inside = ", reservations: "+l.path("files", s.name()+".resv"), ""
	}
	if inside != "" {
		inside = ", " + inside
	}
	return fmt.Sprintf("{nsid: %d, block-size: %d, file: {path: %s, size: %d%s}%s}", s.nsid, s.blockSize, l.path("files", s.name()+".img"), spaceSize, inside, outside)
}

func (l *lab) keyFiles(h *hostPlan) (s string) {
	if h.keys >= 1 {
		s += ", key-file: '" + l.path("files", h.name+".key") + "'"
	}
	if h.keys >= 2 {
		s += ", controller-key-file: '" + l.path("files", h.name+".ctrl.key") + "'"
	}
	return s
}

func (l *lab) path(parts ...string) string {
	return filepath.Join(append([]string{l.o.dir}, parts...)...)
}
