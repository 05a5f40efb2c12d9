package command

import (
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const invalidField = capsule.StatusInvalidField | capsule.StatusDNR

// A Workplace is a shard and the memory that commands have on it.
type Workplace struct {
	*storage.Place
	ArenaKey rdmatransport.LKey // of the shard's arena
	Scratch  *shard.Arena       // what commands read into that the host does not see
}

// An Owner is the connection that commands come from.
type Owner interface {
	// Begin begins a command that is not a half of a fused operation.
	Begin(r *Request)
	// NoteError is told of each command that was answered with an error.
	NoteError(r *Request, s capsule.Status)
}

// A Client is the controller of an I/O queue.
type Client interface {
	// Refused is told that the host tried to change blocks that it may not change.
	Refused(ns *storage.Namespace)
	// Presumed is told that the host uses a namespace and asks about none since it connected;
	// it notes that in the view.
	Presumed(ns *storage.Namespace)
	// Reserve carries out a command that changes the reservation of a namespace's volume.
	// It is called outside of the shards, and may block.
	Reserve(ns *storage.Namespace, cmd reservation.Command) capsule.Status
}

// A Queue has the commands of one connection. It belongs to its shard.
type Queue struct {
	Owner   Owner
	Shard   *shard.Shard
	At      *Workplace // the same shard
	Tables  *Tables
	MaxData int // bytes of one command's data (MDTS)

	// Of an I/O queue that is connected; nil: it is none.
	Client Client
	View   *storage.View
	HostID capsule.HostID
	// Durable says that every write has to be durable when it is answered, whatever its
	// command asks for.
	Durable *atomic.Bool

	first    *Request // a fused first half whose second has not come
	unseen   []unseen // commands of namespaces that the host has not identified, in order
	look     shard.Timer
	Requests []Request
	piece    [1]rdmatransport.SGE
	Counts   Counts
}

// Make makes n requests.
func (q *Queue) Make(n int) {
	q.Requests = make([]Request, n)
	q.look.Func = q.lookAgain
	for i := range q.Requests {
		q.Requests[i].init(q)
	}
}

// Take begins the command of a context of the connection.
func (q *Queue) Take(l Link, cmd *capsule.Command, index int) {
	r := &q.Requests[index]
	q.Counts.Commands++
	r.begin(l, cmd)
	q.Owner.Begin(r)
}

// End ends all commands: the connection is gone.
func (q *Queue) End() {
	for i := range q.Requests {
		q.Requests[i].stop(capsule.StatusSQDeleted)
	}
	q.Shard.StopTimer(&q.look)
}

// Tables are what I/O queues execute, the same for all.
type Tables struct {
	IO    [256]Row
	fused [2]Row // the halves of Compare and Write
}

// NewTables returns them.
func NewTables() Tables { return Tables{IO: ioTable(), fused: fusedRows()} }
