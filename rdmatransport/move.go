package rdmatransport

import "os"

// A MovableDevice is a device whose connections can continue in another process. softroce's can; the state of an RNIC
// stays with the process that opened it. The steps are:
//
//  1. Each consumer finishes its outstanding work until its queue pairs are [MovableQueuePair.Idle]. Messages from
//     peers are still received and acknowledged meanwhile.
//  2. The completion queues are no longer polled. Packets that arrive from then on wait in the sockets. If a queue
//     pair is no longer idle, it is closed, or polling resumes.
//  3. Each queue pair is exported ([MovableQueuePair.Export]), then Move is called on the device.
//  4. The other process opens a device from the [Moved] and creates the same number of completion queues in the same
//     order. It adopts each queue pair ([AdoptingDomain]) on the completion queue with the same position as before,
//     and posts receives. It calls Listen again for each port.
//  5. Begin is called on the new device, and Close on the old one.
//
// No packet is lost in the move itself. A peer sees a pause: a SEND that arrives in between is acknowledged when the
// new process reads it.
//
// Keys do not move. The new process registers its memory again, and keys that peers hold of the old process are
// invalid. Counters start again from zero.
//
// A process that fails to hand over the Moved can open a new device from it in the same way and continue itself.
type MovableDevice interface {
	Device
	// Prepare obtains the descriptors that Move needs while the device is still in use, so that Move cannot fail for
	// lack of them. The device owns them until Move.
	Prepare() error
	// Move gives up the device. Its completion queues must not be polled or waited on while Move runs, and all its
	// queue pairs must be exported or closed; otherwise Move fails and changes nothing. Afterwards polling is
	// harmless and returns nothing, and listeners return [ErrClosed]. Connection requests not yet answered are
	// dropped without an answer, so that peers repeat them. A later Close tells peers nothing and only closes this
	// process's descriptors.
	Move() (*Moved, error)
	// Begin starts a device that was opened from a Moved; it has an effect once. Until then arriving packets wait in
	// the sockets, nothing is sent and no timer fires, but completion queues can be polled and Listen works. Begin
	// ends connections of the Moved that were not adopted, with a disconnect request to the peer. A device that is
	// closed before Begin tells peers nothing, so that another one can be opened from the Moved. On other devices
	// Begin does nothing.
	Begin()
}

// Moved is the state of a device that moves to another process.
type Moved struct {
	// Files are duplicates of the descriptors that the device needs, in the order that State defines. They are
	// close-on-exec.
	Files []*os.File
	// State is versioned JSON.
	State []byte
}

// Close closes the files. It must be called after a device was opened from the Moved, or after it was sent to another
// process: the device has its own descriptors.
func (m *Moved) Close() error {
	var first error
	for _, f := range m.Files {
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	m.Files = nil
	return first
}

// An AdoptingDomain is a Domain that can continue a connection of another process.
type AdoptingDomain interface {
	Domain
	// Adopt creates a queue pair from the state that [MovableQueuePair.Export] returned, on a device that was opened
	// from a [Moved] and has not begun. The queue pair keeps its number and is connected. It has no receives: they
	// must be posted before Begin. cfg is as for NewQueuePair. If the peer has ended the connection meanwhile, the
	// queue pair ends as if the peer did so now. Adopt must be called by the owner of cfg.CQ.
	Adopt(cfg QPConfig, state []byte) (QueuePair, error)
}

// A MovableQueuePair is a QueuePair whose connection can move to another process.
type MovableQueuePair interface {
	QueuePair
	// Idle reports whether the queue pair is connected with nothing outstanding: all posted sends have completed, no
	// message is partly received, no packet is kept out of order, no acknowledgement or response is pending, all
	// completions were polled, and the peer has confirmed the connection. Posted receives do not count.
	Idle() bool
	// Export returns the state of the connection for Adopt. If the queue pair is not idle, it fails and changes
	// nothing. Otherwise the queue pair can only be closed: posts fail, there are no more completions, Close tells
	// the peer nothing, and the memory of its receives belongs to the caller again. Packets that still arrive for it
	// become part of the Moved.
	Export() ([]byte, error)
}
