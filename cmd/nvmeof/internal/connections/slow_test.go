package connections

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A slow connector uses fakes. Its subsystem "slow" does not answer: neither when connecting nor, once connected, when
// its namespaces are listed.
type slow struct {
	*fake
	connects bool // connections succeed
}

func (s slow) Connect(ctx context.Context, paths []Path, changed func()) (Subsystem, []Controller, error) {
	if paths[0].Options.NQN != "slow" {
		return s.fake.Connect(ctx, paths, changed)
	}
	if !s.connects {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	sub, all, err := s.fake.Connect(ctx, paths, changed)
	return slowSubsystem{sub}, all, err
}

type slowSubsystem struct{ Subsystem }

func (s slowSubsystem) Namespaces(ctx context.Context) ([]Namespace, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s slowSubsystem) Add(ctx context.Context, p Path) (Controller, error) {
	<-ctx.Done()
	return s.Subsystem.Add(ctx, p)
}

// newSlowRig returns a rig whose subsystem "a" has a namespace.
func newSlowRig(t *testing.T, connects bool) *rig {
	r := newRig(t)
	r.holder.config.Connector = slow{r.fake, connects}
	r.connect("a", "192.0.2.1", "nvme0")
	r.spaces("a", 1)
	r.published("nvme0n1")
	return r
}

// connectSlowly connects to the subsystem "slow", for half a minute.
func (r *rig) connectSlowly(addr string) (result chan error) {
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	result = make(chan error, 1)
	go func() { // ends with ctx
		defer cancel()
		_, err := r.holder.Connect(ctx, path("slow", addr))
		result <- err
	}()
	synctest.Wait()
	return result
}

// disconnect disconnects a subsystem, without delay.
func (r *rig) disconnect(nqn string) {
	r.Helper()
	began := time.Now()
	if _, err := r.holder.Disconnect(disconnectRequest{NQN: nqn}.wants); err != nil {
		r.Error(err)
	}
	if took := time.Since(began); took > 0 {
		r.Errorf("disconnecting took %v", took)
	}
}

// TestWhileConnecting checks that while a target does not answer a connection, disks of others come and go, and others
// are disconnected.
func TestWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSlowRig(t, false)
		result := r.connectSlowly("192.0.2.9")
		r.spaces("a", 1, 2)
		r.published("nvme0n1 nvme0n2")
		r.disconnect("a")
		r.published("")
		if err := <-result; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("connected: %v", err)
		}
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhileLooking checks that a target that does not list its namespaces delays no other.
func TestWhileLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSlowRig(t, true)
		result := r.connectSlowly("192.0.2.9")
		r.connect("b", "192.0.2.2", "nvme2")
		for range 3 {
			r.spaces("a", 1, 2)
			r.spaces("b", 1)
			r.published("nvme0n1 nvme0n2 nvme2n1")
			r.spaces("a", 1)
			r.published("nvme0n1 nvme2n1")
			time.Sleep(lookTime / 2) // the listing of the slow one continues
		}
		if err := <-result; err != nil {
			t.Error(err)
		}
		r.disconnect("a")
		r.disconnect("slow")
		r.published("nvme2n1")
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestDisconnectedWhileAdding checks that a subsystem whose last controller goes while another one is being connected
// stays until that is connected.
func TestDisconnectedWhileAdding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSlowRig(t, true)
		if err := <-r.connectSlowly("192.0.2.8"); err != nil {
			t.Error(err)
		}
		result := r.connectSlowly("192.0.2.9")
		r.disconnect("slow")
		if err := <-result; err != nil {
			t.Error(err)
		}
		r.shape("nvme-subsys0(nvme0: nvme0n1), nvme-subsys1(nvme2: )")
		r.disconnect("slow")
		r.shape("nvme-subsys0(nvme0: nvme0n1)")
		if !r.fake.subs["slow"].closed {
			t.Error("the subsystem is not closed")
		}
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
	})
}
