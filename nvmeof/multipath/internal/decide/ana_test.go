package decide

import (
	"errors"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A group is a descriptor of a log.
type group struct {
	id    capsule.ANAGroup
	state capsule.ANAState
	ids   []capsule.NSID
}

func anaLog(groups ...group) []byte {
	b := make([]byte, capsule.ANALogHeaderSize)
	capsule.ANALogHeader{CHGCNT: 7, NGRPS: uint16(len(groups))}.Encode(b)
	for _, g := range groups {
		at := len(b)
		b = append(b, make([]byte, capsule.ANADescriptorHeader+4*len(g.ids))...)
		capsule.ANADescriptor{Group: g.id, NNSIDS: uint32(len(g.ids)), State: g.state}.Encode(b[at:])
		capsule.PutNSIDs(b[at+capsule.ANADescriptorHeader:], g.ids)
	}
	return b
}

func TestDecodeANALog(t *testing.T) {
	many := make([]capsule.NSID, 3000) // more than an Identify list holds
	for i := range many {
		many[i] = capsule.NSID(i + 100)
	}
	b := anaLog(group{1, capsule.ANAOptimized, []capsule.NSID{1, 3}}, group{4, capsule.ANAInaccessible, many}, group{5, capsule.ANAChange, nil})
	l, err := DecodeANALog(append(b, make([]byte, 4096)...), 128)
	if err != nil {
		t.Fatal(err)
	}
	if l.Changes != 7 || !l.Changing() || len(l.Members) != len(many)+2 {
		t.Errorf("%d changes, changing %v, %d members", l.Changes, l.Changing(), len(l.Members))
	}
	for id, want := range map[capsule.NSID]capsule.ANAState{1: capsule.ANAOptimized, 3: capsule.ANAOptimized, 3099: capsule.ANAInaccessible} {
		if got := l.State(id, 9); got != want {
			t.Errorf("namespace %d: %v, want %v", id, got, want)
		}
	}
	if l.State(2, 4) != capsule.ANAInaccessible || l.State(2, 9) != capsule.ANAChange {
		t.Error("the state of a namespace that the log does not have")
	}
	for n := range 60 {
		if _, err := DecodeANALog(b[:n], 128); err == nil {
			t.Errorf("%d bytes of a log pass", n)
		}
	}
	if _, err := DecodeANALog(b[:len(b)-1], 128); !errors.Is(err, ErrShortLog) {
		t.Errorf("without the last byte: %v", err)
	}
}

func TestBadANALog(t *testing.T) {
	const o = capsule.ANAOptimized
	tests := []struct {
		log  []byte
		want string
	}{
		{anaLog(group{0, o, nil}), "group 0"},
		{anaLog(group{129, o, nil}), "group 129"},
		{anaLog(group{1, 0, nil}), "state 0x0"},
		{anaLog(group{1, 5, nil}), "state 0x5"},
		{anaLog(group{1, o, nil}, group{1, o, nil}), "twice"},
		{anaLog(group{1, o, []capsule.NSID{0}}), "namespace 0 follows 0"},
		{anaLog(group{1, o, []capsule.NSID{2, 2}}), "namespace 2 follows 2"},
		{anaLog(group{1, o, []capsule.NSID{2}}, group{2, o, []capsule.NSID{2}}), "in groups 1 and 2"},
	}
	for _, tt := range tests {
		if _, err := DecodeANALog(tt.log, 128); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

func TestANALogSize(t *testing.T) {
	if got := ANALogSize(1<<32-1, 1<<32-1); got != 16+(1<<32-1)*36 {
		t.Errorf("%d", got)
	}
}

func TestClassOf(t *testing.T) {
	for s, want := range map[capsule.ANAState]Class{
		capsule.ANAOptimized: Optimized, capsule.ANANonOptimized: NonOptimized, capsule.ANAInaccessible: Unusable,
		capsule.ANAPersistentLoss: Unusable, capsule.ANAChange: Unusable, 0: Unusable,
	} {
		if got := ClassOf(s); got != want {
			t.Errorf("%v: %d", s, got)
		}
	}
}

func FuzzDecodeANALog(f *testing.F) {
	f.Add(anaLog(group{1, capsule.ANAOptimized, []capsule.NSID{1, 3}}, group{4, capsule.ANAInaccessible, nil}))
	f.Add(anaLog())
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeANALog(b, 128)
		if err != nil {
			return
		}
		for id, g := range l.Members {
			if id == 0 || ClassOf(l.State(id, 0)) > Optimized || l.Groups[g] == 0 {
				t.Errorf("namespace %d in group %d", id, g)
			}
		}
	})
}
