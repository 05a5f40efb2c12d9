//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// window is a type 2B memory window (IBTA volume 1, 10.6.7). The upper 24 bits of its key never change; the lower 8
// bits change with each bind.
type window struct {
	qp    *queuePair
	mw    *C.struct_ibv_mw // nil once closed
	key   rdmatransport.RKey
	iova  uint64
	bound bool   // as far as known: the peer may have invalidated it
	chain uint64 // chain in which it was last bound
}

// NewWindow implements rdmatransport.QueuePair.
func (q *queuePair) NewWindow() (rdmatransport.Window, error) {
	switch {
	case q.closed:
		return nil, rdmatransport.ErrClosed
	case len(q.windows) >= q.maxWindows:
		return nil, fmt.Errorf("verbs: all %d memory windows of the queue pair are allocated", q.maxWindows)
	}
	w := &window{qp: q}
	var key C.uint32_t
	if err := failure(C.nv_alloc_mw(q.domain.pd, &w.mw, &key), "allocating a memory window"); err != nil {
		return nil, err
	}
	w.key = rdmatransport.RKey(key)
	q.windows[w.key>>8] = w
	return w, nil
}

func (w *window) RKey() rdmatransport.RKey { return w.key }
func (w *window) IOVA() uint64             { return w.iova }

// next returns the key of the next bind (ibv_inc_rkey(3)).
func (w *window) next() rdmatransport.RKey { return w.key&^0xff | (w.key+1)&0xff }

// Close implements rdmatransport.Window. The key becomes invalid at once.
func (w *window) Close() error {
	if w.mw == nil {
		return nil
	}
	mw := w.mw
	w.mw, w.bound = nil, false
	delete(w.qp.windows, w.key>>8)
	return w.qp.cq.dev.freed(C.nv_dealloc_mw(mw), "freeing a memory window")
}

// invalidated records that a key is invalid.
func (q *queuePair) invalidated(key rdmatransport.RKey) {
	if w := q.windows[key>>8]; w != nil && w.key == key {
		w.bound = false
	}
}
