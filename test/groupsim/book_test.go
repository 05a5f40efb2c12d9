package groupsim

import (
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/nvmeof-go/nvmeof/internal/group"
)

// A book records the commands about reservations and their results as hosts see them.
type book struct {
	w       *world
	rights  map[group.ID]*[blocks]rights
	history map[group.ID][]*deed
	writes  map[group.ID][]*deed
	epochs  map[group.ID][]porcupine.Operation // epochs in which commands were executed
}

// rights is the state of a host in a group.
type rights struct {
	begun   int  // attempts to register
	settled int  // attempts that are known to be over
	barred  bool // the host was preempted and has not begun to register since
}

// A deed is a reservation command with its result for the host.
type deed struct {
	filing
	call, end time.Duration
	err       error
}

func newBook(w *world) *book {
	return &book{w: w, rights: map[group.ID]*[blocks]rights{}, history: map[group.ID][]*deed{}, writes: map[group.ID][]*deed{}, epochs: map[group.ID][]porcupine.Operation{}}
}

func (b *book) of(id group.ID, host int) *rights {
	r := b.rights[id]
	if r == nil {
		r = &[blocks]rights{}
		b.rights[id] = r
	}
	return &r[host]
}

func (b *book) right(id group.ID, host int) int { return b.of(id, host).begun }

// begin records a command, and returns a function that records its end.
func (b *book) begin(f *filing) func(error) {
	d := &deed{filing: *f, call: b.w.now, err: errUnknown}
	b.history[f.group] = append(b.history[f.group], d)
	if f.victim < 0 {
		r := b.of(f.group, f.host)
		r.begun++
		r.barred = false
		mine := r.begun
		return func(err error) {
			d.end, d.err = b.w.now, err
			if err == nil || err == errConflict || err == errInaccessible && mine == r.settled+1 {
				r.settled = max(r.settled, mine)
			}
		}
	}
	victim := b.of(f.group, f.victim)
	before := *victim
	return func(err error) {
		d.end, d.err = b.w.now, err
		if err == nil && before.begun == before.settled && victim.begun == before.begun {
			victim.barred = true
			b.w.note("host %d may not write to group %d any more", f.victim, f.group)
		}
	}
}

// landed checks that the host of a write may write.
func (b *book) landed(x *write) {
	if b.of(x.group, x.host).barred {
		b.w.violation("a write of host %d to group %d lands (%s, epoch %d) after it was preempted", x.host, x.group, x.inc, x.epoch)
	}
}
