package decide

import (
	"errors"
	"fmt"
	"maps"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// An ANALog is the ANA log of a controller.
type ANALog struct {
	Changes uint64 // CHGCNT
	Groups  map[capsule.ANAGroup]capsule.ANAState
	Members map[capsule.NSID]capsule.ANAGroup
}

// State returns the state of a namespace. Its group is the one in the log or, if the log does not list the namespace,
// group, from its Identify data. The state is Change if the log lacks the group: requests to a namespace that appears
// before the log has its group must wait.
func (l *ANALog) State(id capsule.NSID, group capsule.ANAGroup) capsule.ANAState {
	if g, ok := l.Members[id]; ok {
		group = g
	}
	if s, ok := l.Groups[group]; ok {
		return s
	}
	return capsule.ANAChange
}

// Changing reports whether a group is in the state Change.
func (l *ANALog) Changing() bool {
	for s := range maps.Values(l.Groups) {
		if s == capsule.ANAChange {
			return true
		}
	}
	return false
}

// ANALogSize returns the maximum length of a log in bytes.
func ANALogSize(groups, namespaces uint32) uint64 {
	return capsule.ANALogHeaderSize + uint64(groups)*capsule.ANADescriptorHeader + 4*uint64(namespaces)
}

// ErrShortLog reports that more of the log must be read.
var ErrShortLog = errors.New("ANA log is longer than the part that was read")

// DecodeANALog decodes the log at the start of b, and checks it: groups are 1 to max, states are defined, and
// namespaces ascend and are in one group each (NVMe base 2.0, 5.16.1.13).
func DecodeANALog(b []byte, max uint32) (*ANALog, error) {
	h, err := capsule.DecodeANALogHeader(b)
	if err != nil {
		return nil, err
	}
	l := &ANALog{h.CHGCNT, map[capsule.ANAGroup]capsule.ANAState{}, map[capsule.NSID]capsule.ANAGroup{}}
	b = b[capsule.ANALogHeaderSize:]
	for range h.NGRPS {
		if len(b) < capsule.ANADescriptorHeader {
			return nil, ErrShortLog
		}
		d, err := capsule.DecodeANADescriptor(b)
		if err != nil {
			return nil, err
		}
		b = b[capsule.ANADescriptorHeader:]
		if uint64(len(b)) < 4*uint64(d.NNSIDS) {
			return nil, ErrShortLog
		}
		if err := l.add(&d, b[:4*d.NNSIDS], max); err != nil {
			return nil, err
		}
		b = b[4*d.NNSIDS:]
	}
	return l, nil
}

func (l *ANALog) add(d *capsule.ANADescriptor, ids []byte, max uint32) error {
	switch d.State {
	case capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAInaccessible, capsule.ANAPersistentLoss, capsule.ANAChange:
	default:
		return fmt.Errorf("ANA log: group %d: %v", d.Group, d.State)
	}
	if d.Group == 0 || uint32(d.Group) > max {
		return fmt.Errorf("ANA log: group %d: want 1 to %d", d.Group, max)
	}
	if _, ok := l.Groups[d.Group]; ok {
		return fmt.Errorf("ANA log: group %d is listed twice", d.Group)
	}
	l.Groups[d.Group] = d.State
	last := capsule.NSID(0)
	for i := range int(d.NNSIDS) {
		id := capsule.NSIDAt(ids[4*i:], 0)
		if id <= last {
			return fmt.Errorf("ANA log: group %d: namespace %d follows %d, but they must be in ascending order", d.Group, id, last)
		}
		if other, ok := l.Members[id]; ok {
			return fmt.Errorf("ANA log: namespace %d is in groups %d and %d", id, other, d.Group)
		}
		l.Members[id], last = d.Group, id
	}
	return nil
}

// ClassOf returns the class of a path with a state. Paths in states in which commands are not executed are not used
// (NVMe base 2.0, 8.1).
func ClassOf(s capsule.ANAState) Class {
	switch s {
	case capsule.ANAOptimized:
		return Optimized
	case capsule.ANANonOptimized:
		return NonOptimized
	}
	return Unusable
}
