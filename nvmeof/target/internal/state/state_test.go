package state

import (
	"math"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestKeepAliveTimeouts is row 44.
func TestKeepAliveTimeouts(t *testing.T) {
	var k KeepAlive
	for millis, want := range map[uint32]time.Duration{
		0: 0, 1: time.Second, 1000: time.Second, 1001: 2 * time.Second, 5000: 5 * time.Second,
		0xffffffff: 4294968 * time.Second,
	} {
		k.Set(millis, 1000)
		if time.Duration(k.timeout) != want {
			t.Errorf("KATO of %d ms is %v, want %v", millis, time.Duration(k.timeout), want)
		}
		if reported := uint32(min(want.Milliseconds(), math.MaxUint32)); k.Millis != reported {
			t.Errorf("KATO of %d ms is reported as %d, want %d", millis, k.Millis, reported)
		}
		if k.Enabled() && (k.Expired(999+int64(want)) || !k.Expired(1000+int64(want))) {
			t.Errorf("KATO of %d ms does not expire at its deadline", millis)
		}
		if !k.Enabled() && k.Expired(1<<62) {
			t.Error("a timer that is off expires")
		}
	}
}

func TestChangedNamespacesOverflow(t *testing.T) {
	var l ChangedNamespaces
	b := make([]byte, capsule.NamespaceListSize)
	for id := capsule.NSID(capsule.NamespaceListEntries); id > 0; id-- {
		l.Add(id)
		l.Add(id)
	}
	l.Encode(b)
	if capsule.NSIDAt(b, 0) != 1 || capsule.NSIDAt(b, capsule.NamespaceListEntries-1) != capsule.NamespaceListEntries {
		t.Error("a full list is not ascending")
	}
	l.Add(5000)
	if l.Encode(b); capsule.NSIDAt(b, 0) != capsule.NSIDBroadcast || capsule.NSIDAt(b, 1) != 0 {
		t.Errorf("overflowing list % x", b[:8])
	}
}
