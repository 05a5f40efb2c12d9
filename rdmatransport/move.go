package rdmatransport

import "os"

// A MovableDevice is a device whose connections can go on in another process: softroce's
// is, an RNIC's state stays with the process that has it. The steps are
//
//  1. each consumer finishes what it has under way until its queue pairs are
//     [MovableQueuePair.Idle]. What peers send meanwhile is received and acknowledged as ever;
//  2. completion queues are not polled any more. What arrives from then on waits in the
//     sockets. A queue pair that is not idle after all is closed, or the queues are polled
//     again;
//  3. [MovableQueuePair.Export] of each queue pair, then Move of the device;
//  4. the other process opens a device from the [Moved] and creates the same number of
//     completion queues in the same order. Each queue pair is adopted ([AdoptingDomain]), on
//     the completion queue that has the place of its own, and gets receives. Listen announces
//     the ports anew;
//  5. Begin of the new device, Close of the old one.
//
// Nothing is lost on the way. A peer sees a pause: a SEND that arrives in between is
// acknowledged when the new process reads it.
//
// Keys do not move. The new process registers its memory anew, and a peer that has keys of
// the old one finds them dead. Counters begin anew.
//
// A process that cannot hand the Moved on may continue itself, in the same way, with a new
// device.
type MovableDevice interface {
	Device
	// Prepare takes the descriptors that Move needs, before anything is given up: Move does not
	// fail for want of them afterwards. They are the device's until then.
	Prepare() error
	// Move gives up the device. Nobody polls its completion queues, or waits in them, while
	// it runs, and all its queue pairs are exported or closed; else it fails and changes
	// nothing. Afterwards polling does no harm and brings nothing. Listeners are
	// [ErrClosed] then. Requests for connections that nobody has answered are dropped without
	// an answer, so that the peer repeats them. Close tells peers nothing afterwards and
	// closes this process's descriptors alone.
	Move() (*Moved, error)
	// Begin lets a device that was opened from a Moved receive and send, once. Until then what
	// arrives waits in the sockets, what is to be sent waits too and no timer fires; but
	// completion queues can be polled, and Listen works. Connections of the Moved that were
	// not adopted are ended, with a disconnect request to the peer. A device that is closed
	// before it begins tells peers nothing, so that another one can be opened from the Moved.
	// On other devices Begin does nothing.
	Begin()
}

// Moved is a device on its way to another process.
type Moved struct {
	// Files are duplicates of the descriptors that the device needs, in the order that
	// State says. They are closed on exec.
	Files []*os.File
	// State is JSON with a version.
	State []byte
}

// Close closes the files. Who has opened a device from a Moved, or has sent it, closes
// it: the device has descriptors of its own.
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
	// Adopt creates a queue pair from what [MovableQueuePair.Export] returned, on a device
	// that was opened from a [Moved] and has not begun. It has the number it had and is
	// connected. It has no receives: they are to be posted before the device begins. cfg is
	// as for NewQueuePair. If the peer has ended the connection meanwhile, the queue pair
	// ends as if it had done so now. Called by the owner of cfg.CQ.
	Adopt(cfg QPConfig, state []byte) (QueuePair, error)
}

// A MovableQueuePair is a QueuePair whose connection can go to another process.
type MovableQueuePair interface {
	QueuePair
	// Idle reports whether the queue pair is connected and nothing is under way: each posted
	// send has completed, no message is received in part, no packet is kept out of order, no
	// acknowledgement or response is owed, all completions were polled, and the peer has
	// confirmed the connection. Posted receives do not count.
	Idle() bool
	// Export returns the state of the connection for Adopt. It fails, and changes nothing,
	// if the queue pair is not idle. Otherwise the queue pair is of no more use: posts fail,
	// it gets no completions, and Close tells the peer nothing; the memory of its receives
	// is the caller's again. Packets that arrive for it all the same go along with Move.
	Export() ([]byte, error)
}
