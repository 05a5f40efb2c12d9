package main

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// maxSize is how large a namespace can become, in bytes.
const maxSize = 256 << 20

// A store is a memory store of which only the first size bytes are visible.
type store struct {
	*memory.Store
	size atomic.Int64
}

func (s *store) Info() backend.Info {
	info := s.Store.Info()
	info.Size = s.size.Load()
	return info
}

// A model is the target, and the stores of its namespaces.
type model struct {
	addr   netip.Addr
	target *target.Target
	sub    *target.Subsystem
	stores map[int]*store
}

// change carries out a line of input.
func (m *model) change(line string) error {
	w := append(strings.Fields(line), "", "", "", "", "")
	switch w[0] + " " + w[1] {
	case "listener add":
		_, err := m.target.Listen(netip.AddrPortFrom(m.addr, uint16(number(w[2]))))
		return err
	case "listener remove":
		return m.target.RemoveListener(target.PortID(number(w[2])))
	case "subsystem add":
		s, err := m.target.AddSubsystem(target.SubsystemConfig{NQN: nvmeof.NQN(w[2])})
		if err == nil {
			s.AllowAnyHost(true)
		}
		return err
	case "subsystem remove":
		return m.target.RemoveSubsystem(nvmeof.NQN(w[2]))
	case "host allow":
		m.sub.AllowHost(nvmeof.NQN(w[2]))
		return nil
	case "host remove":
		m.sub.RemoveHost(nvmeof.NQN(w[2]))
		return nil
	case "host access":
		access := map[string]target.Access{"write": target.AccessWrite, "read": target.AccessRead, "none": target.AccessNone}
		return m.sub.SetAccess(nvmeof.NQN(w[2]), capsule.NSID(number(w[3])), access[w[4]])
	case "referral add":
		return m.target.AddReferral(target.Referral{Addr: netip.MustParseAddrPort(w[2])})
	case "referral remove":
		return m.target.RemoveReferral(target.Referral{Addr: netip.MustParseAddrPort(w[2])})
	}
	switch w[0] {
	case "namespace":
		return m.namespace(w[1], number(w[2]), w[3])
	case "ana":
		return m.ana(number(w[1]), number(w[2]), w[3])
	}
	return fmt.Errorf("%q is no change that is known", line)
}

func (m *model) ana(listener, group int, name string) error {
	for _, state := range []capsule.ANAState{capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAInaccessible,
		capsule.ANAPersistentLoss, capsule.ANAChange} {
		for _, l := range m.target.Listeners() {
			if state.String() == name && int(l.ID()) == listener {
				return l.SetANAState(capsule.ANAGroup(group), state)
			}
		}
	}
	return fmt.Errorf("no listener %d, or no state %s", listener, name)
}

func (m *model) namespace(verb string, id int, arg string) error {
	if verb == "add" {
		return m.addNamespace(id, int64(number(arg))<<20)
	}
	for _, ns := range m.sub.Namespaces() {
		if int(ns.ID()) != id {
			continue
		}
		switch verb {
		case "remove":
			return m.removeNamespace(id)
		case "resize":
			m.stores[id].size.Store(int64(number(arg)) << 20)
			return nil // the target notices
		case "readonly":
			ns.SetReadOnly(arg == "on")
			return nil
		case "group":
			return ns.SetGroup(capsule.ANAGroup(number(arg)))
		case "pause":
			return ns.Pause(0)
		case "resume":
			return ns.Resume()
		}
	}
	return fmt.Errorf("no namespace %d, or no verb %s", id, verb)
}

func (m *model) addNamespace(id int, size int64) error {
	mem, err := memory.New(memory.Config{Size: maxSize, BlockSize: 512})
	if err != nil {
		return err
	}
	s := &store{Store: mem}
	s.size.Store(size)
	if _, err := m.sub.AddNamespace(target.NamespaceConfig{Store: s, NSID: capsule.NSID(id)}); err != nil {
		return err
	}
	m.stores[id] = s
	return nil
}

func (m *model) removeNamespace(id int) error {
	if err := m.sub.RemoveNamespace(capsule.NSID(id)); err != nil {
		return err
	}
	return m.stores[id].Close()
}

// number returns the number in s, or 0, which the target refuses, if s is none.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
