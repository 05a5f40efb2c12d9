package capsule_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

var anaLog = capsule.ANALog{ChangeCount: 7, Groups: []capsule.ANALogGroup{
	{Group: 1, ChangeCount: 3, State: capsule.ANAOptimized, Namespaces: []capsule.NSID{1, 2, 7}},
	{Group: 2, ChangeCount: 1 << 40, State: capsule.ANANonOptimized},
	{Group: 128, State: capsule.ANAChange, Namespaces: []capsule.NSID{9}},
}}

func TestANALog(t *testing.T) {
	b := dirty(anaLog.Size() + 1)
	anaLog.Encode(b)
	if b[anaLog.Size()] != 0xa5 {
		t.Error("wrote past its end")
	}
	b = b[:anaLog.Size()]
	if got, err := capsule.ParseANALog(b); err != nil || !reflect.DeepEqual(got, anaLog) {
		t.Errorf("%+v, %v, want %+v", got, err, anaLog)
	}
	for n := range b {
		if _, err := capsule.ParseANALog(b[:n]); !errors.Is(err, capsule.ErrShort) {
			t.Fatalf("%d of %d bytes: %v, want ErrShort", n, len(b), err)
		}
	}
}

// TestANALogThatLies: an overflowing number of namespaces is rejected before anything is allocated for it.
func TestANALogThatLies(t *testing.T) {
	b := make([]byte, capsule.ANALogHeaderSize+capsule.ANADescriptorHeader+64)
	capsule.ANALogHeader{NGRPS: 1}.Encode(b)
	for _, n := range []uint32{17, 1 << 30, 0xffffffff} {
		capsule.ANADescriptor{Group: 1, NNSIDS: n}.Encode(b[capsule.ANALogHeaderSize:])
		if _, err := capsule.ParseANALog(b); !errors.Is(err, capsule.ErrShort) {
			t.Errorf("%d namespaces: %v, want ErrShort", n, err)
		}
	}
}

func FuzzANALog(f *testing.F) {
	b := make([]byte, anaLog.Size())
	anaLog.Encode(b)
	f.Add(b)
	f.Add(b[:20])
	f.Fuzz(func(t *testing.T, in []byte) {
		log, err := capsule.ParseANALog(in)
		if err != nil {
			return
		}
		once, twice := make([]byte, log.Size()), make([]byte, log.Size())
		log.Encode(once)
		again, err := capsule.ParseANALog(once)
		if err != nil {
			t.Fatal(err)
		}
		if again.Encode(twice); !bytes.Equal(once, twice) {
			t.Fatal("not a fixpoint")
		}
	})
}
