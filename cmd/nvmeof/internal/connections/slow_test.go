package connections

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A slow connector is one of fakes, of which "slow" does not answer: neither who connects to it, nor, once
// it is connected, who looks at its namespaces.
type slow struct {
	*fake
	connects bool // it lets everybody connect
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

// newSlowRig is a rig whose subsystem "a" has a namespace.
func newSlowRig(t *testing.T, connects bool) *rig {
	r := newRig(t)
	r.holder.config.Connector = slow{r.fake, connects}
	r.connect("a", "192.0.2.1", "nvme0")
	r.spaces("a", 1)
	r.published("nvme0n1")
	return r
}

// connectSlowly connects to the slow one, for half a minute.
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

// disconnect disconnects what is connected to, which takes no time.
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

// TestWhileConnecting: while a target does not answer who connects to it, disks of others come and go, and others
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

// TestWhileLooking: a target that does not say which namespaces it has delays no other one.
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
			time.Sleep(lookTime / 2) // the looks at the slow one go on
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

// TestDisconnectedWhileAdding: a subsystem whose last controller goes while another one is being connected to
// stays, and is there when that is connected.
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
