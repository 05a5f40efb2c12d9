package fabric

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// spareCommands is how many commands can have windows over data in several parts at one time.
const spareCommands = 2

// spareWindows are the windows over parts of data beyond the first. They belong to the queue's loop.
type spareWindows struct {
	all   []spareWindow
	of    [][]int32 // by slot: the windows over its command's parts
	free  []int32
	kills []int32 // to be invalidated in this turn
}

// A spareWindow is a window and the slot whose command uses it.
type spareWindow struct {
	window rdmatransport.Window
	key    rdmatransport.RKey
	slot   int32
}

func (w *spareWindows) init(cfg *HostConfig) {
	if !cfg.Windows || cfg.Descriptors < 2 {
		return
	}
	w.all = make([]spareWindow, spareCommands*(cfg.Descriptors-1))
	w.of = make([][]int32, cfg.Depth-1)
	for i := range w.all {
		w.free = append(w.free, int32(i))
	}
}

func (w *spareWindows) open(qp rdmatransport.QueuePair) (err error) {
	for i := 0; i < len(w.all) && err == nil; i++ {
		w.all[i].window, err = qp.NewWindow()
	}
	return err
}

// close closes the windows before their queue pair is closed.
func (w *spareWindows) close() {
	for i := range w.all {
		if x := &w.all[i]; x.window != nil {
			x.window.Close()
			x.window = nil
		}
	}
}

// giveBack frees an invalidated window and returns the slot that used it.
func (w *spareWindows) giveBack(i int32) (slot int32) {
	w.free = append(w.free, i)
	return w.all[i].slot
}

// bindMore binds windows to the further parts of a command's data.
func (q *HostQueue) bindMore(s *hostSlot, i int32) {
	write := s.req.writes()
	access := rdmatransport.AccessRemoteWrite
	if write {
		access = rdmatransport.AccessRemoteRead
	}
	if len(s.req.More) == 0 {
		return
	}
	w := &q.spares
	w.of[i] = w.of[i][:0]
	for _, p := range s.req.More {
		n := len(w.free) - 1
		at := w.free[n]
		w.free = w.free[:n]
		w.of[i] = append(w.of[i], at)
		s.more++
		x := &w.all[at]
		x.slot = i
		q.collectBind(i, x.window, access, rdmatransport.SGE{
			Buf: part(p.Memory.bytes, p.Offset, p.Length), LKey: p.Memory.region(write).LKey(),
		})
	}
}

// shared returns a descriptor of memory whose key remains valid after the command.
func shared(m *Memory, off, length int, write bool) capsule.SGL {
	region := m.region(write)
	return capsule.KeyedSGL(region.IOVA()+uint64(off), uint32(length), uint32(region.RKey()), false)
}

// list writes the descriptors of data in several parts after the command, and replaces the command's descriptor, which
// becomes the first of the list. The response invalidates the key of the first one.
func (q *HostQueue) list(i int32, cmd *capsule.Command) []byte {
	s := &q.slots[i]
	more := s.req.More
	b := q.capsule(i)[:capsule.CommandSize+(1+len(more))*capsule.SGLSize]
	at := b[capsule.CommandSize:]
	cmd.SGL.Encode(at)
	for k, p := range more {
		at = at[capsule.SGLSize:]
		if s.more == 0 {
			shared(p.Memory, p.Offset, p.Length, s.req.writes()).Encode(at)
			continue
		}
		x := &q.spares.all[q.spares.of[i][k]]
		x.key = x.window.RKey()
		capsule.KeyedSGL(x.window.IOVA(), uint32(p.Length), uint32(x.key), false).Encode(at)
	}
	cmd.SGL = capsule.LastSegmentSGL(0, uint32((1+len(more))*capsule.SGLSize))
	return b
}

// killMore queues invalidations of the windows over further parts; the response has invalidated none of them.
func (q *HostQueue) killMore(i int32) {
	q.spares.kills = append(q.spares.kills, q.spares.of[i]...)
	q.slot.Flush()
}

func (q *HostQueue) collectMoreKills() {
	w := &q.spares
	for _, i := range w.kills {
		q.send.Sends = append(q.send.Sends, rdmatransport.SendWR{
			ID: q.slot.ID(makeTag(tagInvalidMore, i)), Op: rdmatransport.OpInvalidate,
			Flags: rdmatransport.FlagSignaled, InvalidateKey: w.all[i].key,
		})
		q.charge(true)
	}
	w.kills = w.kills[:0]
}
