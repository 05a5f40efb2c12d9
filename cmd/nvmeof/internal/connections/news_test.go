package connections

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestLostAndBack checks that a controller that was lost and reconnected between two looks is reported.
func TestLostAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect("a", "192.0.2.1", "nvme0")
		synctest.Wait()
		quiet := len(r.log)
		for id := range capsule.ControllerID(3) {
			c := r.controller("nvme0")
			r.fake.mu.Lock()
			c.status.ID = id
			r.fake.mu.Unlock()
			c.sub.changed()
			synctest.Wait()
		}
		if reported := r.log[quiet:]; !slices.Equal(reported, []string{"nvme0: live", "nvme0: live"}) {
			t.Errorf("reported %q of a controller that came back twice", reported)
		}
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestIdleNoMore checks that a holder is not idle if a controller was connected after its last one had gone.
func TestIdleNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect("a", "192.0.2.1", "nvme0")
		if _, err := r.holder.Disconnect(disconnectRequest{NQN: "a"}.wants); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		<-r.holder.Idle()
		r.connect("b", "192.0.2.2", "nvme1")
		select {
		case <-r.holder.Idle():
			t.Error("it is idle")
		default:
		}
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
		<-r.holder.Idle()
	})
}
