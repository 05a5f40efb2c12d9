package storage

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *Lease
		l := NewLease(time.Now().Add(time.Second), []capsule.ANAGroup{2, 0, ana.MaxGroups + 7})
		time.Sleep(time.Second)
		if none.Over(2) || l.Over(2) || l.Over(1) {
			t.Error("it is over before its end")
		}
		time.Sleep(time.Nanosecond)
		if none.Over(2) || !l.Over(2) || l.Over(1) {
			t.Error("after its end it is over for its group, and for no other")
		}
	})
}
