//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const defaultShared = 1024

// sharedReceiveQueue implements rdmatransport.SharedReceiveQueue over an ibv_srq. Only the owner of its completion
// queue accesses it. Receives complete in any order, so each has a slot of its own, whose number is in the work
// request's ID.
type sharedReceiveQueue struct {
	cq     *completionQueue
	domain *domain
	serial uint32
	srq    *C.struct_ibv_srq // nil once closed
	maxSGE int
	depth  int
	users  int // number of queue pairs

	ids    []uint64 // by slot
	posted []bool
	free   []uint32 // unused slots
}

// NewSharedReceiveQueue implements rdmatransport.Domain.
func (d *domain) NewSharedReceiveQueue(cfg rdmatransport.SRQConfig) (rdmatransport.SharedReceiveQueue, error) {
	c, ok := cfg.CQ.(*completionQueue)
	if !ok || c.dev != d.dev || c.closed {
		return nil, errors.New("verbs: the completion queue belongs to another device")
	}
	if d.closed.Load() {
		return nil, rdmatransport.ErrClosed
	}
	if cfg.Depth == 0 {
		cfg.Depth = min(defaultShared, c.dev.attrs.MaxShared)
	}
	if cfg.MaxSGE == 0 {
		cfg.MaxSGE = defaultSGE
	}
	limit := min(c.dev.attrs.MaxSGE, int(c.dev.hw.max_srq_sge))
	if cfg.Depth < 1 || cfg.Depth > c.dev.attrs.MaxShared || cfg.MaxSGE < 1 || cfg.MaxSGE > limit {
		return nil, fmt.Errorf("verbs: shared receive queue of %d receives, %d scatter elements: %s has up to %d and %d",
			cfg.Depth, cfg.MaxSGE, c.dev.attrs.Name, c.dev.attrs.MaxShared, limit)
	}
	s := &sharedReceiveQueue{
		cq: c, domain: d, maxSGE: cfg.MaxSGE, depth: cfg.Depth, ids: make([]uint64, cfg.Depth), posted: make([]bool, cfg.Depth),
		free: make([]uint32, 0, cfg.Depth),
	}
	for i := range cfg.Depth {
		s.free = append(s.free, uint32(cfg.Depth-1-i))
	}
	return s, s.create()
}

func (s *sharedReceiveQueue) create() error {
	c, d := s.cq, s.cq.dev
	d.mu.Lock()
	err := d.usable()
	d.mu.Unlock()
	if err == nil {
		err = c.reserve(0, s.depth)
	}
	if err != nil {
		return err
	}
	code := C.nv_create_srq(d.lib, s.domain.pd, C.uint32_t(s.depth), C.uint32_t(s.maxSGE), &s.srq)
	if err := failure(code, fmt.Sprintf("creating a shared receive queue of %d receives", s.depth)); err != nil {
		c.unreserve(0, s.depth)
		return err
	}
	s.serial = c.newSerial()
	c.shared[s.serial] = s
	return nil
}

// share makes a queue pair that is about to be created take its receives from a shared queue, unless that is nil.
func (q *queuePair) share(shared rdmatransport.SharedReceiveQueue) error {
	if shared == nil {
		return nil
	}
	s, ok := shared.(*sharedReceiveQueue)
	switch {
	case !ok || s.cq != q.cq || s.domain != q.domain:
		return errors.New("verbs: the shared receive queue belongs to another domain or completion queue than the queue pair")
	case s.srq == nil:
		return rdmatransport.ErrClosed
	}
	q.shared, q.maxRecv = s, 0
	return nil
}

// PostRecv implements rdmatransport.SharedReceiveQueue.
func (s *sharedReceiveQueue) PostRecv(wrs []rdmatransport.RecvWR) error {
	switch {
	case s.srq == nil:
		return rdmatransport.ErrClosed
	case len(wrs) > len(s.free):
		return rdmatransport.ErrQueueFull
	case len(wrs) == 0:
		return nil
	}
	for i := range wrs {
		if n := len(wrs[i].SGL); n > s.maxSGE {
			return fmt.Errorf("verbs: receive of %d elements, limit %d", n, s.maxSGE)
		}
	}
	c := s.cq
	c.recvs, c.sges = c.recvs[:0], c.sges[:0]
	for i := range wrs {
		slot := s.free[len(s.free)-1-i]
		s.ids[slot], s.posted[slot] = wrs[i].ID, true
		first, n := c.addSGL(wrs[i].SGL)
		id := uint64(s.serial)<<32 | receiveBit | uint64(slot)
		c.recvs = append(c.recvs, C.struct_nv_recv{wr_id: C.uint64_t(id), first_sge: first, sges: n})
	}
	code := c.postSharedRecv(s.srq)
	runtime.KeepAlive(wrs) // the device has only addresses
	// If the device refuses a receive although there is room, it will always refuse it.
	s.free = s.free[:len(s.free)-len(wrs)]
	if err := failure(code, "posting shared receives"); err != nil {
		c.dev.lose(ErrBroken)
		return err
	}
	return nil
}

// translate converts a completion of the device, whose queue pair may be closed.
func (s *sharedReceiveQueue) translate(w *C.struct_nv_wc) (*queuePair, *rdmatransport.Completion) {
	slot := uint32(w.wr_id & sequenceMask)
	if int(slot) >= len(s.ids) || !s.posted[slot] {
		return nil, nil
	}
	s.posted[slot] = false
	s.free = append(s.free, slot)
	c, qpn := s.cq, rdmatransport.QPN(w.qp_num)
	q, done := c.sharers[qpn], &c.done
	*done = rdmatransport.Completion{ID: s.ids[slot], QPN: qpn, Op: rdmatransport.OpRecv, Status: statusOf(w.status)}
	switch {
	case q == nil || q.closed && done.Status == rdmatransport.StatusSuccess:
		done.Status = rdmatransport.StatusFlushed
	case done.Status == rdmatransport.StatusSuccess:
		q.received(done, w)
	default:
		kept := *done
		q.failed(kept.Status, w, true)
		*done = kept
	}
	return q, done
}

// Close implements rdmatransport.SharedReceiveQueue.
func (s *sharedReceiveQueue) Close() error {
	switch {
	case s.srq == nil:
		return nil
	case s.users > 0:
		return fmt.Errorf("verbs: shared receive queue still has %d queue pairs", s.users)
	}
	c := s.cq
	err := c.dev.freed(C.nv_destroy_srq(c.dev.lib, s.srq), "destroying a shared receive queue")
	s.srq = nil
	delete(c.shared, s.serial)
	c.unreserve(0, s.depth)
	return err
}

func (c *completionQueue) closeShared() error {
	var errs []error
	for _, s := range c.shared {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

var _ rdmatransport.SharedReceiveQueue = (*sharedReceiveQueue)(nil)
