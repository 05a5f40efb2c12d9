package interop

import (
	"testing"
	"time"
)

const (
	targetNQN  = "nqn.2026-01.org.example:interop"
	targetSize = 256 << 20 // bytes of each namespace
)

// A setting is one combination in which a target is judged.
type setting struct {
	storage string // memory or file
	mtu     int
	family  string // ipv4 or ipv6
}

func (s setting) peerAddr() string {
	if s.family == "ipv6" {
		return "fd09::1"
	}
	return "10.9.0.1"
}

func (s setting) hostAddr() string {
	if s.family == "ipv6" {
		return "fd09::2"
	}
	return "10.9.0.2"
}

// env are the parameters that scripts on the host want.
func (s setting) env() env {
	return env{"nqn": targetNQN, "addr": s.peerAddr(), "host": s.hostAddr(), "family": s.family, "size": targetSize, "options": ""}
}

// startTarget starts a target with one namespace at the peer.
func (l *lab) startTarget(t *testing.T, s setting) {
	t.Helper()
	l.targetAction(t, s, "start")
}

func (l *lab) stopTarget(t *testing.T, s setting) {
	t.Helper()
	l.targetAction(t, s, "stop")
}

func (l *lab) targetAction(t *testing.T, s setting, action string) {
	t.Helper()
	e := s.env()
	e["storage"], e["action"] = s.storage, action
	l.onPeer(t, time.Minute, map[bool]string{true: "nvmet", false: "target"}[l.other != nil], e)
}
