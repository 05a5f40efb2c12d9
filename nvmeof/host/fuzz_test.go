package host

import (
	"context"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// lieSize is the length of an entry of FuzzController's script: the number of the command, what is wrong in its
// response, the offset in its data (2 bytes), how many bytes, and their value.
const lieSize = 6

const (
	lieStatus = iota // a status instead of an answer
	lieResult        // bits of the result
	lieData          // bytes of the data
	lieSilent        // no answer
	lieKinds
)

// lies are the entries of a script for each command, counted from the first.
type lies struct {
	script []byte
	count  int // commands so far
}

// next returns the entries for the next command.
func (l *lies) next() (all [][]byte) {
	for s := l.script; len(s) >= lieSize; s = s[lieSize:] {
		if int(s[0])%48 == l.count {
			all = append(all, s[:lieSize])
		}
	}
	l.count++
	return all
}

// install makes the controller follow the script.
func (l *lies) install(to *liar) {
	var now [][]byte
	to.refuse = func(c *capsule.Command) (status capsule.Status) {
		now = l.next()
		for _, lie := range now {
			if lie[1]%lieKinds == lieStatus {
				status = capsule.Status(uint16(lie[2])<<8|uint16(lie[3])) & 0x7fff
			}
		}
		return status
	}
	to.silent = func(*capsule.Command) bool {
		for _, lie := range now {
			if lie[1]%lieKinds == lieSilent {
				return true
			}
		}
		return false
	}
	to.answer = func(_ *fabric.Command, result *uint64, data []byte) {
		for _, lie := range now {
			at := int(lie[2])<<8 | int(lie[3])
			switch lie[1] % lieKinds {
			case lieResult:
				*result ^= uint64(lie[5]) << (at % 64)
			case lieData:
				if len(data) == 0 {
					break
				}
				for i := range min(int(lie[4]), len(data)) {
					data[(at+i)%len(data)] = lie[5]
				}
			}
		}
	}
	to.log = func(off uint64, b []byte) { // of a discovery log with two entries
		if off == 0 {
			(capsule.DiscoveryHeader{GENCTR: 1, NUMREC: 2}).Encode(b)
		}
	}
}

// use does what hosts do with a controller, and checks what it reports.
func use(ctx context.Context, t *testing.T, c *Controller) {
	if c.IOQueues() < 0 || c.IOQueues() > 2 || c.QueueDepth() < 2 || c.QueueDepth() > 128 || c.MaxTransfer() <= 0 || c.MaxTransfer() > 2<<20 {
		t.Fatalf("%d queues of %d, transfers of %d", c.IOQueues(), c.QueueDepth(), c.MaxTransfer())
	}
	_, _ = c.Logs().SMART(ctx, capsule.NSIDBroadcast)
	if ids, err := c.Logs().ChangedNamespaces(ctx); err == nil && len(ids) > capsule.NamespaceListEntries {
		t.Fatalf("%d namespaces have changed", len(ids))
	}
	if entries, err := c.Logs().Errors(ctx, 300); err == nil && len(entries) > 256 {
		t.Fatalf("%d errors", len(entries))
	}
	if log, err := c.Logs().Discovery(ctx); err == nil && len(log.Entries) > maxDiscoveryEntries {
		t.Fatalf("%d records", len(log.Entries))
	}
	_, _ = c.Logs().ANA(ctx, false)
	ids, err := c.Namespaces(ctx)
	if err != nil {
		return
	}
	for i, id := range ids {
		if id == 0 || i > 0 && id <= ids[i-1] {
			t.Fatalf("namespaces %v", ids)
		}
	}
	n, err := c.Namespace(ctx, 1)
	if err != nil {
		return
	}
	if n.Size() < 0 || n.BlockSize() < 512 || n.BlockSize() > 64<<10 || n.Size()%int64(n.BlockSize()) != 0 {
		t.Fatalf("%d bytes in blocks of %d", n.Size(), n.BlockSize())
	}
	if r, err := n.Reservations().Report(ctx); err == nil && len(r.Registrants) > 1<<16 {
		t.Fatalf("%d registrants", len(r.Registrants))
	}
	_, _ = n.Refresh()
	_, _ = n.Execute(ctx, capsule.Command{Opcode: capsule.Opcode(capsule.IOFlush)}, nil)
}

// FuzzController: a host survives any response of a controller, and observes the limits of both sides afterwards.
func FuzzController(f *testing.F) {
	f.Add([]byte{}, byte(0))
	for command := range byte(40) {
		f.Add([]byte{command, command % lieKinds, 0, 0, 255, 0xff, command + 3, lieData, 2, 0, 255, 0xff}, command<<4)
	}
	f.Fuzz(func(t *testing.T, script []byte, oncs byte) {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.identify = func(i *capsule.IdentifyController) { i.ONCS, i.NN, i.NANAGRPID, i.MNAN = uint16(oncs), 3, 2, 3 }
			(&lies{script: script}).install(l)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			o := l.options()
			o.Timeout = 5 * time.Second
			c, err := l.host.Connect(ctx, o)
			if err != nil {
				return
			}
			use(ctx, t, c)
			_ = c.Disconnect(ctx)
		})
	})
}
