package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// A check sends one or a few commands, and checks their effect.
type check struct {
	name string
	run  func(context.Context, *host.Controller, *host.Namespace) error
}

var checks = []check{
	{"durable write", durable}, {"vectored", vectored}, {"write zeroes", zeroes}, {"discard", discard}, {"compare", compare},
	{"compare and write", compareAndWrite}, {"verify", verify}, {"copy", copyRanges}, {"reservations", reservations},
	{"features", features}, {"write protection", protection}, {"unknown command", unknown}, {"cancel", cancelReads}, {"deadlines", deadlines},
	{"durable write again", durable},
}

// area is the number of bytes that the checks overwrite.
const area = 1 << 20

func filled(n int, with byte) []byte { return bytes.Repeat([]byte{with}, n) }

func wantData(n *host.Namespace, off int64, want []byte) error {
	got := make([]byte, len(want))
	if _, err := n.ReadAt(got, off); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes at %d are not what they should be", len(want), off)
	}
	return nil
}

func durable(ctx context.Context, _ *host.Controller, n *host.Namespace) error {
	b := filled(area, 0x5a)
	if _, err := n.WriteDurable(ctx, b, 0); err != nil {
		return err
	}
	return errors.Join(n.FlushContext(ctx), wantData(n, 0, b))
}

// vectored transfers buffers in registered memory, of whole blocks and of parts of blocks, and buffers in other memory.
func vectored(ctx context.Context, c *host.Controller, n *host.Namespace) (err error) {
	buffers, err := c.NewBuffers(area)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, buffers.Close()) }()
	mem := buffers.Bytes()
	cut := func() [][]byte {
		bufs := [][]byte{make([]byte, 700), mem[1000:1324]} // a block or two in pieces
		for i := 1; i < 9; i++ {                            // not adjacent
			bufs = append(bufs, mem[i*64<<10:][:i*4096])
		}
		return append(bufs, make([]byte, 8192))
	}
	out := cut()
	for i, b := range out {
		copy(b, filled(len(b), byte(i+1)))
	}
	want := bytes.Join(out, nil)
	if _, err := n.WriteVectored(ctx, out, 4096); err != nil {
		return err
	}
	if err := wantData(n, 4096, want); err != nil {
		return err
	}
	clear(mem)
	in := cut()
	if _, err := n.ReadVectored(ctx, in, 4096); err != nil {
		return err
	}
	if !bytes.Equal(bytes.Join(in, nil), want) {
		return errors.New("other data came back")
	}
	return nil
}

func zeroes(ctx context.Context, _ *host.Controller, n *host.Namespace) error {
	for _, free := range []bool{false, true} {
		if _, err := n.WriteAt(filled(area, 1), 0); err != nil {
			return err
		}
		if err := n.WriteZeroesContext(ctx, 8192, area-16384, free); err != nil {
			return err
		}
		if err := errors.Join(wantData(n, 0, filled(8192, 1)), wantData(n, 8192, make([]byte, area-16384)), wantData(n, area-8192, filled(8192, 1))); err != nil {
			return err
		}
	}
	return nil
}

func discard(ctx context.Context, _ *host.Controller, n *host.Namespace) error {
	if _, err := n.WriteAt(filled(2*area, 2), 0); err != nil {
		return err
	}
	var ranges []host.Range
	for i := range int64(300) { // more than one command can carry
		ranges = append(ranges, host.Range{Off: i * 4096, Length: 2048})
	}
	if err := n.Discard(ctx, ranges...); err != nil {
		return err
	}
	return wantData(n, 300*4096, filled(area/2, 2)) // outside the ranges of the hint
}

func compare(ctx context.Context, _ *host.Controller, n *host.Namespace) error {
	b := filled(area, 3)
	if _, err := n.WriteAt(b, 0); err != nil {
		return err
	}
	if err := n.Compare(ctx, b, 0); err != nil {
		return err
	}
	b[area-1]++
	if err := n.Compare(ctx, b, 0); !errors.Is(err, backend.ErrMiscompare) {
		return fmt.Errorf("comparing something else: %w", err)
	}
	return nil
}

func compareAndWrite(ctx context.Context, _ *host.Controller, n *host.Namespace) error {
	old, next := filled(n.BlockSize(), 4), filled(n.BlockSize(), 5)
	if _, err := n.WriteAt(old, 0); err != nil {
		return err
	}
	if err := n.CompareAndWrite(ctx, 0, old, next); err != nil {
		return err
	}
	if err := n.CompareAndWrite(ctx, 0, old, next); !errors.Is(err, backend.ErrMiscompare) {
		return fmt.Errorf("a second time: %w", err)
	}
	return wantData(n, 0, next)
}

func verify(ctx context.Context, _ *host.Controller, n *host.Namespace) error {
	return n.Verify(ctx, 0, area)
}

func copyRanges(ctx context.Context, _ *host.Controller, n *host.Namespace) error {
	if _, err := n.WriteAt(append(filled(area/2, 6), filled(area/2, 7)...), 0); err != nil {
		return err
	}
	if err := n.Copy(ctx, area, host.Range{Off: area / 2, Length: area / 2}, host.Range{Off: 0, Length: area / 2}); err != nil {
		return err
	}
	return wantData(n, area, append(filled(area/2, 7), filled(area/2, 6)...))
}

func reservations(ctx context.Context, _ *host.Controller, n *host.Namespace) error {
	const key, kind = 0xabc, capsule.ReservationWriteExclusive
	if err := n.Reservations().Register(ctx, key, host.RegisterOptions{}); err != nil {
		return err
	}
	if err := n.Reservations().Acquire(ctx, key, kind); err != nil {
		return err
	}
	r, err := n.Reservations().Report(ctx)
	if err != nil {
		return err
	}
	if len(r.Registrants) != 1 || r.Type != kind || r.Registrants[0].Key != key {
		return fmt.Errorf("report %+v", r)
	}
	return errors.Join(n.Reservations().Release(ctx, key, kind), n.Reservations().Unregister(ctx, key, host.RegisterOptions{}))
}

func features(ctx context.Context, c *host.Controller, _ *host.Namespace) error {
	queues, err := c.Features().NumberOfQueues(ctx)
	if err != nil || queues.Submission < c.IOQueues() {
		return fmt.Errorf("%d queues granted, %d in use, %w", queues.Submission, c.IOQueues(), err)
	}
	if err := c.Features().SetKeepAliveTimeout(ctx, 15*time.Second); err != nil {
		return err
	}
	if kato, err := c.Features().KeepAliveTimeout(ctx); err != nil || kato != 15*time.Second {
		return fmt.Errorf("KATO is %v, %w", kato, err)
	}
	if err := c.Features().SetEventConfig(ctx, capsule.EventNamespaceAttribute); err != nil {
		return err
	}
	if events, err := c.Features().EventConfig(ctx); err != nil || events != capsule.EventNamespaceAttribute {
		return fmt.Errorf("events %#x, %w", events, err)
	}
	return nil
}

func protection(ctx context.Context, c *host.Controller, n *host.Namespace) error {
	if c.Identify().NWPC&capsule.NWPCSupported == 0 {
		return fmt.Errorf("%w: write protection", host.ErrUnsupported)
	}
	if err := n.SetWriteProtection(ctx, capsule.WriteProtected); err != nil {
		return err
	}
	_, wrote := n.WriteAt(filled(4096, 8), 0)
	p, err := n.WriteProtection(ctx)
	if err := errors.Join(err, n.SetWriteProtection(ctx, capsule.WriteProtectNone)); err != nil {
		return err
	}
	if p != capsule.WriteProtected || !errors.Is(wrote, backend.ErrReadOnly) {
		return fmt.Errorf("protection %d, writing: %w", p, wrote)
	}
	return nil
}

// unknown sends a command with an opcode that no target supports: it must fail, and do no harm.
func unknown(ctx context.Context, _ *host.Controller, n *host.Namespace) error {
	_, err := n.Execute(ctx, capsule.Command{Opcode: 0xc5}, filled(4096, 9))
	var status *host.StatusError
	if !errors.As(err, &status) || status.Status.Code() != capsule.StatusInvalidOpcode {
		return fmt.Errorf("completed with %w, want an invalid opcode", err)
	}
	return nil
}

// cancelReads cancels reads at any point of their life. Linux's target aborts nothing, so most complete by themselves.
func cancelReads(ctx context.Context, c *host.Controller, n *host.Namespace) error {
	var wg sync.WaitGroup
	results := make(chan error, 4*100)
	for g := range 4 {
		wg.Go(func() {
			b := make([]byte, 128<<10)
			for i := range 100 {
				short, cancel := context.WithTimeout(ctx, time.Duration(100+30*i*(g+1))*time.Microsecond)
				_, err := n.ReadAtContext(short, b, int64(g)<<20)
				cancel()
				results <- err
			}
		})
	}
	wg.Wait()
	close(results)
	for err := range results {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return c.Err()
}

// deadlines checks the deadlines of a queue.
func deadlines(_ context.Context, c *host.Controller, n *host.Namespace) (err error) {
	q, err := n.OpenQueue(32, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	q.SetTimeout(4 * time.Millisecond)
	b := make([]byte, 32<<16)
	var results [32]backend.Result
	for round := range 20 {
		for i := range 32 {
			q.Submit([]backend.Request{{Tag: uint64(i), Op: backend.OpRead, Offset: int64(i+round) << 16, Length: 1 << 16, Buf: b[i<<16:][:1<<16]}})
		}
		for left := 32; left > 0; {
			if err := q.Wait(); err != nil {
				return err
			}
			for _, r := range results[:q.Poll(results[:])] {
				if left--; r.Err != nil && !errors.Is(r.Err, host.ErrDeadline) {
					return r.Err
				}
			}
		}
	}
	return c.Err()
}
