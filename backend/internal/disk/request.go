package disk

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/stripe"
)

// Long ranges are processed in parts, so that they hold few blocks at a time.
const (
	allocStep = 8 << 20 // bytes of one fallocate(2)
	writeStep = 1 << 20 // bytes of one write of zeroes
)

// maxTries limits how often a call is repeated for which the kernel had no resources, once per turn.
const maxTries = 1000

// method is how a part of a range is processed.
type method uint8

const (
	byTransfer  method = iota // the request is a read or a write
	byPunching                // FALLOC_FL_PUNCH_HOLE
	byDiscard                 // BLKDISCARD: the content is undefined afterwards
	byZeroRange               // FALLOC_FL_ZERO_RANGE
	byWriting                 // zeroes
)

// A slot is a request in progress. It holds the blocks of its current part.
type slot struct {
	req      backend.Request
	done     int64  // bytes of finished parts
	part     int64  // bytes of the current part; 0: none
	moved    int64  // bytes of the part transferred so far
	method   method // of the part
	tries    int
	dsync    bool   // the current call writes durably: its error may be that of a sync
	unsynced bool   // force unit access needs a sync at the end
	ticket   uint64 // of the sync for which it waits
	compared bool   // OpCompareAndWrite: the part had the expected content

	failure *syncFailure // the disk's last failure when the request was taken
}

func (s *slot) exclusive() bool { return s.req.Op != backend.OpRead }

// reading reports whether the current call reads.
func (s *slot) reading() bool {
	return s.req.Op == backend.OpRead || s.req.Op == backend.OpCompareAndWrite && !s.compared
}

// data returns the memory of the current call.
func (s *slot) data(i *backend.Info) []byte {
	if s.req.Op != backend.OpCompareAndWrite {
		return s.req.Buf
	}
	_, next, room := s.req.Parts(i)
	if s.compared {
		return next
	}
	return room
}

// admit returns the error of a request that cannot be executed, and the disk's last failure.
func (d *Disk) admit(r *backend.Request, info *backend.Info) (*syncFailure, error) {
	if err := info.Check(r); err != nil {
		return nil, err
	}
	f := d.sync.failure.Load()
	if r.Op != backend.OpRead && f.inForce() {
		return nil, backend.ErrFailed
	}
	return f, nil
}

// advance begins the next part of a request, makes it wait for its blocks, or ends it.
func (q *queue) advance(i uint32) {
	s := &q.slots[i]
	if s.req.Op == backend.OpCopy {
		q.advanceCopy(i)
		return
	}
	left := s.req.Length - s.done
	if left == 0 {
		q.complete(i)
		return
	}
	part, how := q.disk.plan(s)
	if part == 0 { // nothing can be done, or need be done
		q.complete(i)
		return
	}
	offset := s.req.Offset + s.done
	if q.order.Conflicts(offset, left, s.exclusive()) || !q.hold(offset, part, s.exclusive()) {
		q.order.Add(offset, left, s.exclusive())
		q.waiting = append(q.waiting, i)
		return
	}
	s.part, s.method = part, how
	q.issue(i)
}

func (q *queue) hold(offset, length int64, exclusive bool) bool {
	out := q.disk.blocks.Try(offset, length, exclusive)
	q.again = q.again || out == stripe.Yielded
	return out == stripe.Taken
}

// plan chooses the next part's length and method.
func (d *Disk) plan(r *slot) (int64, method) {
	left := r.req.Length - r.done
	frees := d.cfg.Info.Deallocate
	punch, zero := frees && !d.noPunch.Load(), !d.noZeroRange.Load()
	switch r.req.Op {
	case backend.OpRead, backend.OpWrite, backend.OpCompareAndWrite:
		return left, byTransfer
	case backend.OpDeallocate:
		switch {
		case punch:
			return min(left, allocStep), byPunching
		case frees && !d.noDiscard.Load():
			return min(left, allocStep), byDiscard
		}
		return 0, byPunching
	}
	switch {
	case punch && (r.req.Deallocate || d.cfg.PunchZeroes):
		return min(left, allocStep), byPunching
	case zero:
		return min(left, allocStep), byZeroRange
	}
	return min(left, writeStep), byWriting
}

// issue starts the call for the rest of the part.
func (q *queue) issue(i uint32) {
	s := &q.slots[i]
	if s.req.Op == backend.OpCopy {
		q.copyRange(i)
		return
	}
	at := s.done + s.moved
	c := call{id: i, offset: s.req.Offset + at, length: s.part - s.moved}
	switch {
	case s.reading():
		c.kind, c.buf = callRead, s.data(q.disk.info.Load())[at:]
	case s.method == byTransfer:
		c.kind, c.buf, c.flags = callWrite, s.data(q.disk.info.Load())[at:], q.writeFlags(s)
	case s.method == byWriting:
		c.kind, c.buf, c.flags = callWrite, q.disk.zeroes[:c.length], q.writeFlags(s)
	case s.method == byPunching:
		c.kind, c.flags = callAllocate, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE
	case s.method == byDiscard:
		c.kind = callDiscard
	default:
		c.kind, c.flags = callAllocate, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE
	}
	if c.kind == callAllocate {
		q.disk.freeing.Add(1)
	}
	q.start(c)
}

// writeFlags returns the flags of pwritev2(2), with or without force unit access.
func (q *queue) writeFlags(s *slot) uint32 {
	if s.dsync = s.req.FUA && !q.disk.noDsync.Load(); s.dsync {
		return unix.RWF_DSYNC
	}
	return 0
}

// called continues a request after one of its calls.
func (q *queue) called(o outcome) {
	s := &q.slots[o.id]
	if s.method == byPunching || s.method == byZeroRange {
		q.disk.freed.Add(1)
	}
	switch {
	case q.closing:
		q.release(s)
	case o.errno == unix.EINTR && !s.dsync, o.errno == unix.EAGAIN && s.tries < maxTries:
		s.tries++
		q.issue(o.id)
	case o.errno != 0:
		q.failed(o.id, o.errno)
	case s.method == byPunching, s.method == byDiscard, s.method == byZeroRange:
		q.parted(o.id)
	default:
		q.transferred(o.id, int64(o.n))
	}
}

// transferred counts bytes read or written. After a short transfer the rest is repeated from the last whole block.
func (q *queue) transferred(i uint32, n int64) {
	s := &q.slots[i]
	if s.moved+n == s.part {
		q.parted(i)
		return
	}
	if n &^= q.disk.block - 1; n == 0 {
		q.release(s)
		q.finish(i, q.disk.stuck(&s.req))
		return
	}
	s.moved += n
	q.issue(i)
}

// parted ends a part.
func (q *queue) parted(i uint32) {
	s := &q.slots[i]
	if s.req.Op == backend.OpCompareAndWrite && !s.compared {
		q.compare(i)
		return
	}
	part := s.part
	q.release(s)
	s.done += part
	s.unsynced = s.unsynced || s.req.FUA && s.exclusive() && !s.dsync
	s.dsync = false
	q.advance(i)
}

// compare compares the part and continues with the write of an OpCompareAndWrite, whose blocks remain held.
func (q *queue) compare(i uint32) {
	s := &q.slots[i]
	expected, _, room := s.req.Parts(q.disk.info.Load())
	if !bytes.Equal(expected, room) {
		q.release(s)
		q.finish(i, backend.ErrMiscompare)
		return
	}
	s.compared, s.moved = true, 0
	q.issue(i)
}

func (q *queue) release(s *slot) {
	if s.part > 0 {
		q.disk.blocks.Release(s.req.Offset+s.done, s.part, s.exclusive())
		if s.req.Op == backend.OpCopy {
			q.disk.blocks.Release(s.req.From+s.done, s.part, false)
		}
	}
	s.part, s.moved, s.compared = 0, 0, false
}

// failed ends a request whose call failed, or tries another method.
func (q *queue) failed(i uint32, errno unix.Errno) {
	s := &q.slots[i]
	how, durably := s.method, s.dsync
	q.release(s)
	if q.disk.cannotCopy(s, errno) {
		q.finish(i, backend.ErrUnsupported)
		return
	}
	if q.disk.otherwise(s, how, errno) {
		q.advance(i)
		return
	}
	if how == byZeroRange { // XFS frees the range first: what it could not allocate again has no storage any more
		q.disk.mayAllocate()
	}
	err := q.disk.mediaError(&s.req, errno)
	if durably && !q.disk.refused(err) {
		q.disk.sync.fail(fmt.Errorf("durable write to %s: %w", q.disk.cfg.Name, errno))
	}
	q.finish(i, err)
}

// refused reports whether the error of a durable write is certainly that of the write itself. Any other error may be
// that of its sync: the kernel reports a write-back error of an earlier write only once, and no later sync reports it
// again.
func (d *Disk) refused(err error) bool {
	// A device rejects a write beyond its end before doing anything. And a device with direct I/O, the only case in
	// which a single call writes durably, has nothing to write back.
	return d.cfg.Device && (err == backend.ErrOutOfRange || err == backend.ErrNoSpace)
}

// otherwise notes what the file system does not support, and reports whether there is another method.
func (d *Disk) otherwise(r *slot, how method, errno unix.Errno) bool {
	switch errno {
	case unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL, unix.ENOTTY:
	default:
		return false
	}
	switch {
	case how == byPunching:
		d.noPunch.Store(true)
		return true
	case how == byDiscard:
		d.noDiscard.Store(true)
		return true
	case how == byZeroRange:
		d.noZeroRange.Store(true)
		return true
	case r.dsync && errno == unix.EOPNOTSUPP:
		d.noDsync.Store(true)
		return true
	}
	return false
}

// complete ends a request that was executed, after a sync if it needs one.
func (q *queue) complete(i uint32) {
	if q.slots[i].unsynced {
		q.awaitSync(i)
		return
	}
	q.finish(i, nil)
}

// finish stores a request's result and frees its slot. A write fails if the disk failed while the write was in
// progress.
func (q *queue) finish(i uint32, err error) {
	s := &q.slots[i]
	if err == nil && s.exclusive() && s.req.Op != backend.OpFlush && s.failure != q.disk.sync.failure.Load() {
		err = backend.ErrFailed
	}
	q.results.Push(backend.Result{Tag: s.req.Tag, Err: err})
	q.slots[i] = slot{}
	q.free = append(q.free, i)
}

// awaitSync makes a request wait for a sync that begins from now on.
func (q *queue) awaitSync(i uint32) {
	q.slots[i].ticket = q.disk.sync.ticket()
	if !q.syncEnded(i) {
		q.syncing = append(q.syncing, i)
	}
}

// checkSyncs ends the requests whose sync has ended.
func (q *queue) checkSyncs() {
	kept := q.syncing[:0]
	for _, i := range q.syncing {
		if !q.syncEnded(i) {
			kept = append(kept, i)
		}
	}
	q.syncing = kept
}

// syncEnded ends a request whose sync has ended, or begins the sync if it is the next one and none is running.
func (q *queue) syncEnded(i uint32) bool {
	y, ticket := &q.disk.sync, q.slots[i].ticket
	ended, err := y.outcome(ticket)
	if ended {
		q.finish(i, err)
		return true
	}
	if y.begin(ticket) {
		q.start(call{kind: callSync, id: q.syncID()})
	}
	return false
}

// synced ends the sync that this queue ran, and notifies all waiters.
func (q *queue) synced(o outcome) {
	y := &q.disk.sync
	switch o.errno {
	case 0:
		y.end(nil)
	case unix.ECANCELED:
		y.undo()
	default:
		y.end(fmt.Errorf("fdatasync of %s: %w", q.disk.cfg.Name, o.errno))
	}
	q.disk.blocks.Wake()
}

// stuck returns the error of a transfer that makes no progress: it reached the end of the file or device.
func (d *Disk) stuck(r *backend.Request) error {
	if err := d.lost(r); err != nil {
		return err
	}
	if r.Op == backend.OpRead {
		return backend.ErrOutOfRange
	}
	return d.mediaError(r, unix.EIO)
}

// lost returns why a request's range no longer exists, or nil.
func (d *Disk) lost(r *backend.Request) error {
	size, err := d.cfg.Measure()
	switch {
	case errors.Is(err, ErrGone):
		d.sync.fail(err)
		return d.described(r, err)
	case err == nil && !backend.InRange(r.Offset, r.Length, size):
		return backend.ErrOutOfRange
	}
	return nil
}

// mediaError returns the error of a request for an error of the operating system.
func (d *Disk) mediaError(r *backend.Request, errno unix.Errno) error {
	switch errno {
	case unix.ENOSPC, unix.EDQUOT: // a device also returns ENOSPC beyond its end
		if err := d.lost(r); err != nil {
			return err
		}
		return backend.ErrNoSpace
	case unix.EROFS, unix.EPERM, unix.EBADF:
		if r.Op != backend.OpRead {
			return backend.ErrReadOnly
		}
	}
	switch {
	case isGone(errno):
		err := fmt.Errorf("%w (%w)", ErrGone, errno)
		d.sync.fail(err)
		return d.described(r, err)
	case d.cfg.Device && errno == unix.EIO:
		if err := d.lost(r); err != nil {
			return err
		}
	}
	return d.described(r, errno)
}

func (d *Disk) described(r *backend.Request, err error) error {
	return fmt.Errorf("%v of %d bytes at %d in %s: %w", r.Op, r.Length, r.Offset, d.cfg.Name, err)
}
