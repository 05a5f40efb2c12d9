package host

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A Range is a range of a namespace in bytes. It covers whole blocks.
type Range struct {
	Off, Length int64
}

// Discard deallocates ranges whose content is no longer needed, up to 256 with each command. It is a hint: afterwards
// the ranges read as before or as zeroes. After an error an unknown part of them has been deallocated.
func (n *Namespace) Discard(ctx context.Context, ranges ...Range) error {
	if err := n.controller.supports(capsule.ONCSDatasetManagement); err != nil {
		return err
	}
	if err := n.checkRanges(ranges); err != nil {
		return err
	}
	d := &n.controller.limits.dsm
	limit := batchLimit{ranges: maxDSMRanges, each: math.MaxUint32, all: math.MaxInt64}
	limit.lower(int(d.DMRL), int64(d.DMRSL), int64(min(d.DMSL, math.MaxInt64)))
	return n.batches(ranges, limit, func(batch []Range) error {
		cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IODatasetManagement)}
		capsule.DatasetManagement{Ranges: len(batch), Deallocate: true}.Put(&cmd)
		b := make([]byte, len(batch)*capsule.DSMRangeSize)
		for i, r := range batch {
			capsule.DSMRange{SLBA: n.lba(r.Off), Blocks: uint32(r.Length >> n.io.Shift)}.Encode(b[i*capsule.DSMRangeSize:])
		}
		return second(n.Execute(ctx, cmd, b))
	})
}

// maxDSMRanges is the maximum number of ranges in a Dataset Management command.
const maxDSMRanges = 256

// Copy copies ranges of the namespace to offset to, one directly after the other, without the data passing through the
// host. It sends several commands if one cannot take all (MSRC, MSSRL, MCL). After an error an unknown part has been
// copied. Sources that overlap the destination may be copied before or after they are overwritten.
func (n *Namespace) Copy(ctx context.Context, to int64, ranges ...Range) error {
	c := n.controller
	if err := c.supports(capsule.ONCSCopy); err != nil {
		return err
	}
	if c.identify.OCFS&copyFormat0 == 0 {
		return fmt.Errorf("%w: source ranges of format 0 in Copy", ErrUnsupported)
	}
	if err := n.checkRanges(append([]Range{{to, total(ranges)}}, ranges...)); err != nil {
		return err
	}
	id := n.Identify()
	limit := batchLimit{ranges: int(id.MSRC) + 1, each: math.MaxUint16 + 1, all: math.MaxUint32}
	limit.lower(c.limits.Write/capsule.CopyRangeSize, int64(id.MSSRL), int64(id.MCL))
	return n.batches(ranges, limit, func(batch []Range) error {
		err := n.copyBatch(ctx, to, batch)
		to += total(batch)
		return err
	})
}

// copyFormat0 is the bit of OCFS for format 0.
const copyFormat0 = 1 << 0

func (n *Namespace) copyBatch(ctx context.Context, to int64, batch []Range) error {
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IOCopy)}
	capsule.Copy{SDLBA: n.lba(to), Ranges: len(batch)}.Put(&cmd)
	b := make([]byte, len(batch)*capsule.CopyRangeSize)
	for i, r := range batch {
		capsule.CopyRange{SLBA: n.lba(r.Off), Blocks: uint32(r.Length >> n.io.Shift)}.Encode(b[i*capsule.CopyRangeSize:])
	}
	done, err := n.Execute(ctx, cmd, b)
	// DW0 is the index of the first range that was not copied (NVM command set 1.0, 3.2.2.1).
	if at := int64(done.DW0()); err != nil && !done.Status.OK() && at < int64(len(batch)) {
		return fmt.Errorf("copying %d bytes from %d: %w", batch[at].Length, batch[at].Off, err)
	}
	return err
}

func (n *Namespace) lba(off int64) capsule.LBA { return capsule.LBA(off >> n.io.Shift) }

// total returns the sum of the lengths, or -1 if a length is negative or the sum overflows.
func total(ranges []Range) (sum int64) {
	for _, r := range ranges {
		if r.Length < 0 || sum > math.MaxInt64-r.Length {
			return -1
		}
		sum += r.Length
	}
	return sum
}

func (n *Namespace) checkRanges(ranges []Range) error {
	for _, r := range ranges {
		if err := n.checkRange(r.Off, r.Length); err != nil {
			return fmt.Errorf("%d bytes at %d: %w", r.Length, r.Off, err)
		}
	}
	return n.controller.unsent()
}

// A batchLimit bounds the ranges of one command: their number, the blocks of each, and the blocks of all.
type batchLimit struct {
	ranges    int
	each, all int64
}

// lower applies the limits that a controller states, 0 for none.
func (l *batchLimit) lower(ranges int, each, all int64) {
	if ranges > 0 {
		l.ranges = min(l.ranges, ranges)
	}
	if each > 0 {
		l.each = min(l.each, each)
	}
	if all > 0 {
		l.all = min(l.all, all)
	}
}

// batches splits ranges into what one command takes, and calls sendOne for each batch. If the controller is lost after
// the first batch, the error is not an [*UnsentError].
func (n *Namespace) batches(ranges []Range, limit batchLimit, sendOne func([]Range) error) error {
	sent := false
	send := func(batch []Range) error {
		err := sendOne(batch)
		var unsent *UnsentError
		if sent && errors.As(err, &unsent) {
			err = unsent.Err
		}
		sent = true
		return err
	}
	var batch []Range
	room := limit.all
	for _, r := range ranges {
		for r.Length > 0 {
			if len(batch) == limit.ranges || room == 0 {
				if err := send(batch); err != nil {
					return err
				}
				batch, room = batch[:0], limit.all
			}
			blocks := min(r.Length>>n.io.Shift, limit.each, room)
			part := Range{r.Off, blocks << n.io.Shift}
			batch = append(batch, part)
			room -= blocks
			r.Off, r.Length = r.Off+part.Length, r.Length-part.Length
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return send(batch)
}
