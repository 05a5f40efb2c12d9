package host

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/operation"
)

// A Namespace is a namespace of a connected controller. Its size is the one at the time when it was opened or last
// refreshed; call [Namespace.Refresh] after an event of kind [EventNamespaces]. Its methods may be called from any
// goroutine.
type Namespace struct {
	controller *Controller
	io         operation.Namespace // Refresh sets its bar
	size       atomic.Int64        // bytes
	identify   atomic.Pointer[capsule.IdentifyNamespace]
	ids        Identifiers

	refreshing sync.Mutex // held by Refresh, so that the latest result wins

	mu     sync.Mutex // guards the fields below
	queues int        // number of open queues
	closed bool
}

// Identifiers are the globally unique identifiers of a namespace; zero values are absent.
type Identifiers struct {
	UUID  uuid.UUID
	NGUID [16]byte
	EUI64 [8]byte
	CSI   capsule.CSI
}

// String returns the most specific identifier.
func (i Identifiers) String() string {
	switch {
	case i.UUID != uuid.Nil:
		return "UUID " + i.UUID.String()
	case i.NGUID != [16]byte{}:
		return fmt.Sprintf("NGUID %x", i.NGUID)
	case i.EUI64 != [8]byte{}:
		return fmt.Sprintf("EUI64 %x", i.EUI64)
	}
	return "no identifier"
}

// maxNamespaces bounds the namespace list of a controller that states no bound.
const maxNamespaces = 1 << 20

// namespaceLimit returns the maximum number of namespaces: the least of maxNamespaces and of MNAN and NN if stated
// (NVMe base 2.0, 5.17.2.1). Some targets use identifiers beyond both.
func (c *Controller) namespaceLimit() int {
	limit := uint32(maxNamespaces)
	for _, stated := range []uint32{c.identify.MNAN, c.identify.NN} {
		if stated > 0 {
			limit = min(limit, stated)
		}
	}
	return int(limit)
}

// Namespaces returns the identifiers of the active namespaces in ascending order. It returns an error if the controller
// lists more than MNAN or NN allows.
func (c *Controller) Namespaces(ctx context.Context) ([]capsule.NSID, error) {
	var all []capsule.NSID
	limit := c.namespaceLimit()
	for last := capsule.NSID(0); ; {
		b, err := c.IdentifyData(ctx, last, capsule.Identify{CNS: capsule.CNSActiveNamespaces})
		if err != nil {
			return nil, err
		}
		n := 0
		for ; ; n++ {
			id := capsule.NSIDAt(b, n)
			if id == 0 {
				break
			}
			if id <= last {
				return nil, fmt.Errorf("controller's namespace list is not in ascending order: %d after %d", id, last)
			}
			all, last = append(all, id), id
		}
		if len(all) > limit {
			return nil, fmt.Errorf("controller lists more namespaces than the %d that it can have (MNAN, NN)", limit)
		}
		if n < capsule.NamespaceListEntries || last >= capsule.NSIDBroadcast-2 {
			return all, nil
		}
	}
}

// Block sizes that this host supports, as powers of two: 512 bytes to 64 KiB.
const (
	minShift = 9
	maxShift = 16
)

// Namespace opens a namespace. If it exists but this host cannot use it, the error is an [*UnusableError].
func (c *Controller) Namespace(ctx context.Context, id capsule.NSID) (*Namespace, error) {
	if len(c.ioQueues) == 0 {
		return nil, fmt.Errorf("controller %d has no I/O queues", c.cntlid)
	}
	n := &Namespace{controller: c}
	n.io.ID, n.io.Domain = id, c.domain
	identify, err := c.identifySized(ctx, id)
	if err != nil {
		return nil, err
	}
	n.identify.Store(identify)
	if err := n.judge(); err != nil {
		return nil, &UnusableError{id, err}
	}
	b, err := c.IdentifyData(ctx, id, capsule.Identify{CNS: capsule.CNSDescriptors})
	if err != nil {
		return nil, fmt.Errorf("namespace %d: %w", id, err)
	}
	if n.ids, err = readIdentifiers(b); err != nil {
		return nil, &UnusableError{id, err}
	}
	n.io.Lanes = c.namespaces.Lanes(id, len(c.ioQueues))
	return n, nil
}

// identifyAttempts is how often a namespace is identified that is ready, but has no size. That happens if a change of
// the target removes the namespace and adds it again between the two Identify commands.
const identifyAttempts = 3

// identifySized returns the Identify Namespace data structure of a namespace that has a size.
func (c *Controller) identifySized(ctx context.Context, id capsule.NSID) (*capsule.IdentifyNamespace, error) {
	for range identifyAttempts {
		b, err := c.IdentifyData(ctx, id, capsule.Identify{CNS: capsule.CNSNamespace})
		if err != nil {
			return nil, fmt.Errorf("namespace %d: %w", id, err)
		}
		identify, err := capsule.DecodeIdentifyNamespace(b)
		if err != nil {
			return nil, &UnusableError{id, err}
		}
		if identify.NSZE > 0 {
			return &identify, nil
		}
		there, ready := c.presence(ctx, id)
		if there && !ready {
			return nil, fmt.Errorf("namespace %d: %w", id, ErrNotReady)
		}
		if !there {
			break
		}
	}
	return nil, fmt.Errorf("namespace %d: not active: %w", id, ErrRemoved)
}

// presence reports whether a namespace without a size exists, and whether it is ready now. All data of an inactive
// namespace is zero; the data of any other says that it can be shared, or has its ANA group.
func (c *Controller) presence(ctx context.Context, id capsule.NSID) (there, ready bool) {
	b, err := c.IdentifyData(ctx, id, capsule.Identify{CNS: capsule.CNSNamespaceIndependent})
	if err != nil {
		return false, false
	}
	i, err := capsule.DecodeIdentifyNamespaceIndependent(b)
	return err == nil && (i.NMIC != 0 || i.ANAGRPID != 0), i.NSTAT&capsule.NSTATReady != 0
}

// judge refuses namespaces that this host cannot use.
func (n *Namespace) judge() error {
	id := n.Identify()
	f := id.Format()
	switch {
	case f.LBADS < minShift || f.LBADS > maxShift:
		return fmt.Errorf("blocks of 2^%d bytes: this host supports 512 to 65536", f.LBADS)
	case f.MS != 0:
		return fmt.Errorf("blocks with %d bytes of metadata, which this host does not support", f.MS)
	case id.NSZE > math.MaxInt64>>f.LBADS:
		return fmt.Errorf("%d blocks of %d bytes: more than 8 EiB", id.NSZE, 1<<f.LBADS)
	}
	n.io.Shift = f.LBADS
	n.size.Store(int64(id.NSZE) << n.io.Shift)
	return nil
}

func readIdentifiers(b []byte) (ids Identifiers, err error) {
	for len(b) > 0 {
		t, id, rest, err := capsule.NextDescriptor(b)
		if err != nil {
			return ids, err
		}
		if t == 0 {
			break
		}
		if want := t.Length(); want != 0 && want != len(id) {
			return ids, fmt.Errorf("identifier of type %d has %d bytes, want %d", t, len(id), want)
		}
		switch t {
		case capsule.DescriptorEUI64:
			copy(ids.EUI64[:], id)
		case capsule.DescriptorNGUID:
			copy(ids.NGUID[:], id)
		case capsule.DescriptorUUID:
			copy(ids.UUID[:], id)
		case capsule.DescriptorCSI:
			ids.CSI = capsule.CSI(id[0])
		}
		b = rest
	}
	if ids.CSI != capsule.CSINVM {
		return ids, fmt.Errorf("I/O command set %d: this host supports only the NVM command set", ids.CSI)
	}
	return ids, nil
}

// ID returns the namespace's NSID.
func (n *Namespace) ID() capsule.NSID { return n.io.ID }

// Size returns the namespace's size in bytes.
func (n *Namespace) Size() int64 { return n.size.Load() }

// BlockSize returns the size of a logical block in bytes.
func (n *Namespace) BlockSize() int { return 1 << n.io.Shift }

// Identify returns the namespace's Identify data, which is as old as its size. It must not be changed.
func (n *Namespace) Identify() *capsule.IdentifyNamespace { return n.identify.Load() }

// Identifiers returns the namespace's globally unique identifiers.
func (n *Namespace) Identifiers() Identifiers { return n.ids }
