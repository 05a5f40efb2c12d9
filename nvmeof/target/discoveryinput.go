package target

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/discoverylog"
)

// A discoveryInput has everything from which discovery logs are made, for all subsystems or for some.
type discoveryInput struct {
	listeners  []*Listener
	subsystems []exposure
	referrals  []Referral
	peers      []Peer
}

// An exposure is the part of a discoveryInput for one subsystem.
type exposure struct {
	nqn   nvmeof.NQN
	ports *[]PortID
	hosts *access.List[HostConfig]
}

// discoveryInput returns the current discoveryInput with the subsystems in scope, or with all if scope is nil. Called with mu held.
func (t *Target) discoveryInput(scope []*Subsystem) *discoveryInput {
	s := &discoveryInput{listeners: t.listeners, referrals: t.referrals, peers: t.peers}
	if scope == nil {
		scope = t.Subsystems()
	}
	for _, sub := range scope {
		if t.subsystems[sub.nqn] == sub {
			s.subsystems = append(s.subsystems, exposure{sub.nqn, sub.ports.Load(), &sub.hosts})
		}
	}
	return s
}

// kept returns the discoveryInput with a copy of the hosts, which later changes do not affect. It is empty if there are no
// listeners, since no host can read it then.
func (s *discoveryInput) kept() *discoveryInput {
	if len(s.listeners) == 0 {
		return &discoveryInput{}
	}
	for i := range s.subsystems {
		s.subsystems[i].hosts = s.subsystems[i].hosts.Clone()
	}
	return s
}

// records returns the log of a host, except the record of the discovery service itself. It has each subsystem that
// allows the host, once for every listener on which it is exposed, ordered by listener, with those of other
// targets last; and then the referrals.
func (s *discoveryInput) records(host nvmeof.NQN) (out []discoverylog.Record) {
	for _, l := range s.listeners {
		for i := range s.subsystems {
			if e := &s.subsystems[i]; exposedOn(e.ports, l.port.id) {
				out = e.record(out, l.record(capsule.SubsystemNVM, e.nqn), host)
			}
		}
	}
	for i := range s.peers {
		for j := range s.subsystems {
			if p, e := &s.peers[i], &s.subsystems[j]; p.exposes(e) {
				out = e.record(out, p.record(e.nqn), host)
			}
		}
	}
	for i := range s.referrals {
		out = append(out, s.referrals[i].record())
	}
	return out
}

// key returns the name under which a host's log is cached: all hosts that no subsystem names have the same log.
func (s *discoveryInput) key(host nvmeof.NQN) nvmeof.NQN {
	for i := range s.subsystems {
		if s.subsystems[i].hosts.Named(host) != nil {
			return host
		}
	}
	return ""
}

// record appends the log entry of a subsystem at a listener, if the host gets one.
func (e *exposure) record(out []discoverylog.Record, r discoverylog.Record, host nvmeof.NQN) []discoverylog.Record {
	h := e.hosts.Find(host)
	if h == nil {
		return out
	}
	if h.Config.authenticates() {
		r.TREQ |= capsule.TREQSecureRequired
	}
	return append(out, r)
}

// reshape makes a change of what hosts see of the subsystems in scope, or of all if scope is nil. It notifies
// exactly the discovery controllers whose logs change. Within a [Target.Change] they are notified at its end.
func (t *Target) reshape(scope []*Subsystem, change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reshapeLocked(scope, change)
}

// reshapeLocked is reshape with mu held. A controller's generation changes with its log, under mu.
func (t *Target) reshapeLocked(scope []*Subsystem, change func()) {
	if t.shown != nil {
		change()
		return
	}
	t.discSub.mu.Lock()
	defer t.discSub.mu.Unlock()
	before := t.discoveryLogs(t.discoveryInput(scope))
	change()
	t.reveal(before, scope)
}

// discoveryLogs returns the logs of all discovery controllers for a discoveryInput. Called with mu, and that of the
// discovery subsystem, held.
func (t *Target) discoveryLogs(s *discoveryInput) map[*Controller][]discoverylog.Record {
	logs := make(map[*Controller][]discoverylog.Record, len(t.discSub.controllers))
	made := make(map[nvmeof.NQN][]discoverylog.Record)
	for _, c := range t.discSub.controllers {
		key := s.key(c.hostNQN)
		log, is := made[key]
		if !is {
			log = s.records(key)
			made[key] = log
		}
		logs[c] = log
	}
	return logs
}

// reveal notifies the controllers whose logs have changed. Called with the same mutexes held as discoveryLogs.
func (t *Target) reveal(before map[*Controller][]discoverylog.Record, scope []*Subsystem) {
	t.generation++
	t.shownLogs.changed()
	if len(before) == 0 {
		return
	}
	now := t.discoveryLogs(t.discoveryInput(scope))
	for c, old := range before {
		if !slices.Equal(old, now[c]) {
			c.generation.Store(t.generation)
			c.do(func() { c.raise(capsule.EventDiscoveryChange) })
		}
	}
}
