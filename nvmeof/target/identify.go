package target

import (
	"math/bits"
	"slices"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// An identifyHandler fills the 4096 zeroed bytes of r.data.
type identifyHandler func(c *Controller, r *request, f capsule.Identify) capsule.Status

// identifyRow describes one value of CNS.
type identifyRow struct {
	fill   identifyHandler // discovery controllers have it too
	always bool            // discovery controllers have it too
}

func identifyTable() [256]identifyRow {
	return [256]identifyRow{
		capsule.CNSNamespace:            {fill: identifyNamespace},
		capsule.CNSController:           {fill: identifyController, always: true},
		capsule.CNSActiveNamespaces:     {fill: identifyActive},
		capsule.CNSDescriptors:          {fill: identifyDescriptors},
		capsule.CNSNamespaceCSI:         {fill: identifyNamespaceCSI},
		capsule.CNSControllerCSI:        {fill: identifyControllerCSI},
		capsule.CNSActiveNamespacesCSI:  {fill: identifyActiveCSI},
		capsule.CNSNamespaceIndependent: {fill: identifyIndependent},
		capsule.CNSAllocatedNamespaces:  {fill: identifyActive},
		capsule.CNSAllocatedNamespace:   {fill: identifyNamespace},
		capsule.CNSNamespaceControllers: {fill: identifyNamespaceControllers},
		capsule.CNSControllers:          {fill: identifyControllers},
		capsule.CNSCommandSets:          {fill: identifyCommandSets},
	}
}

func identify(c *Controller, r *request) capsule.Status {
	f := r.cmd.Identify()
	row := c.target.identify[f.CNS]
	switch {
	case row.fill == nil || c.discovery() && !row.always:
		return r.invalid(10, 0)
	case f.UUID != 0:
		return r.invalid(14, 0)
	}
	return row.fill(c, r, f)
}

// mdts returns the exponent of the largest transfer in pages of 4 KiB.
func (c *Controller) mdts() uint8 {
	return uint8(bits.Len(uint(c.target.cfg.MaxData)) - 1 - 12)
}

func identifyController(c *Controller, r *request, _ capsule.Identify) capsule.Status {
	cfg, sub := &c.target.cfg, c.subsystem
	id := capsule.IdentifyController{
		RAB:    6,
		MDTS:   c.mdts(),
		CNTLID: c.id, VER: c.traits.version,
		CTRATT:    capsule.CTRATTHostID128 | capsule.CTRATTTBKAS,
		CNTRLTYPE: c.kind,
		ACL:       maxAborts - 1, AERL: state.MaxEvents - 1,
		LPA:    capsule.LPAEffects | capsule.LPAExtendedData | capsule.LPASupport,
		ELPE:   maxErrors - 1,
		KAS:    state.KeepAliveUnits,
		MAXCMD: uint16(cfg.QueueDepth),
		SGLS:   capsule.SGLSSupported | capsule.SGLSKeyed | capsule.SGLSOffset,
		SubNQN: capsule.MakeNQNField(string(sub.nqn)),
		IOCCSZ: uint32(capsule.CommandSize+cfg.InCapsule) / 16, IORCSZ: capsule.CompletionSize / 16,
		MSDBD: maxDescriptors,
		OFCS:  capsule.OFCSDisconnect,
	}
	capsule.PutText(id.SN[:], c.traits.serial)
	capsule.PutText(id.MN[:], c.traits.model)
	capsule.PutText(id.FR[:], cfg.Firmware)
	if c.discovery() {
		id.OAES = state.SupportedDiscoveryEvents
	} else {
		c.identifyIO(&id)
	}
	id.Encode(r.data)
	return capsule.StatusSuccess
}

// identifyIO sets the fields that only I/O controllers have.
func (c *Controller) identifyIO(id *capsule.IdentifyController) {
	id.CMIC = capsule.CMICManyPorts | capsule.CMICManyControllers | capsule.CMICANA
	id.OAES = state.SupportedEvents
	id.LPA |= capsule.LPASMARTPerNamespace | capsule.LPAPersistentEvent
	id.PELS = 1        // 64 KiB
	id.FRMW = 1<<1 | 1 // one slot, read only
	id.WCTEMP, id.CCTEMP = health.Warning, health.Critical
	id.ANATT, id.ANACAP = ana.Transition, 0x1f // reports all five states
	id.ANAGRPMAX, id.NANAGRPID = ana.Away, ana.Away
	id.SQES, id.CQES = state.SQEntryShift<<4|state.SQEntryShift, state.CQEntryShift<<4|state.CQEntryShift
	id.NN, id.MNAN = storage.MaxNamespace, storage.MaxNamespace
	id.ONCS = capsule.ONCSCompare | capsule.ONCSDatasetManagement | capsule.ONCSWriteZeroes | capsule.ONCSTimestamp |
		capsule.ONCSVerify | capsule.ONCSCopy | capsule.ONCSReservations
	id.OCFS = 1 << 0 // source ranges of format 0
	id.FUSES = capsule.FUSESCompareWrite
	if protects(c.target) {
		id.NWPC = writeProtection
	}
	id.VWC = capsule.VWCFlushAll | capsule.VWCPresent
}

// maxDescriptors is how many keyed descriptors a list in a capsule may have.
const maxDescriptors = 16

// identifyNamespace returns zeroes for an inactive namespace (NVMe base 2.0, 5.17.2.1 on CNS 00h).
func identifyNamespace(c *Controller, r *request, _ capsule.Identify) capsule.Status {
	ns, status := c.view.Lookup(r.cmd.NSID)
	if ns == nil {
		return status
	}
	shape, known := ns.Shape()
	if !known {
		identifyAway(r, ns)
		return status
	}
	id := capsule.IdentifyNamespace{
		NSZE: shape.Blocks, NCAP: shape.Blocks, NUSE: shape.Used,
		NMIC:     capsule.NMICShared,
		RESCAP:   reservationCapabilities(ns, &shape),
		DLFEAT:   deallocateFeatures(&shape),
		NVMCAP:   capsule.Uint128{Lo: shape.Bytes()},
		ANAGRPID: uint32(ns.Shown()),
		NSATTR:   c.attributes(ns),
		NGUID:    ns.NGUID, EUI64: ns.EUI64,
	}
	if shape.Info.Deallocate {
		id.NSFEAT |= capsule.NSFEATThin
	}
	switch c.view.State(ns) {
	case capsule.ANAInaccessible, capsule.ANAPersistentLoss:
		// NVM command set 1.0, 4.1.5.1. The size stays, since a Linux host treats a namespace without a size as
		// removed.
		id.NUSE, id.NVMCAP = 0, capsule.Uint128{}
	}
	id.LBAF[0].LBADS = uint8(shape.Shift)
	id.MSSRL, id.MCL, id.MSRC = uint16(int64(maxCopyRange)>>shape.Shift), uint32(int64(maxCopy)>>shape.Shift), maxCopyRanges-1
	optimal(&shape, &id)
	atomicUnits(&shape, &id)
	id.WriteVerifier = writeVerifier(c, &shape)
	id.Encode(r.data)
	c.identified(ns, state.IdentifyStructure)
	return capsule.StatusSuccess
}

// writeVerifier returns the value by which hosts notice that the machine may have lost unflushed writes to a
// namespace. It is zero for stores that gateways share, which are not cached by the machine.
func writeVerifier(c *Controller, s *storage.Shape) capsule.WriteVerifier {
	if !s.Info.Volatile || s.Info.Remote || !protects(c.target) {
		return 0
	}
	return capsule.WriteVerifier(c.subsystem.life.verifier.Load())
}

// identifyAway returns what is known of a namespace that is away, without a size: NVM command set 1.0, 4.1.5.1. If
// this Identify failed, some hosts, such as SPDK's, would not find the other namespaces. Linux does not send it,
// since it first reads whether the namespace is ready: see CAP.CRMS.
func identifyAway(r *request, ns *storage.Namespace) {
	id := capsule.IdentifyNamespace{NMIC: capsule.NMICShared, ANAGRPID: uint32(ns.Shown()), NGUID: ns.NGUID, EUI64: ns.EUI64}
	id.LBAF[0].LBADS = 9
	id.Encode(r.data)
}

// deallocateFeatures reports that Write Zeroes deallocates blocks if the store can. It does not report the value
// of blocks that Dataset Management has deallocated, since blocks in partly covered units of the store keep their
// content.
func deallocateFeatures(s *storage.Shape) uint8 {
	if s.Info.Deallocate {
		return capsule.DLFEATWriteZeroes
	}
	return 0
}

// attributes returns NSATTR: whether the namespace is write protected for the host.
func (c *Controller) attributes(n *storage.Namespace) uint8 {
	if c.view.Protected(n) {
		return capsule.NSATTRWriteProt
	}
	return 0
}

// optimal sets the preferred granularity of writes and deallocation.
func optimal(s *storage.Shape, id *capsule.IdentifyNamespace) {
	if s.Info.Optimal < s.Info.BlockSize {
		return
	}
	unit := uint16(min(s.Info.Optimal>>s.Shift, 1<<16) - 1) // 0's based
	id.NSFEAT |= capsule.NSFEATOptimal
	id.NPWG, id.NPWA, id.NPDG, id.NPDA, id.NOWS = unit, unit, unit, unit, unit
}

// atomicUnits sets the atomic write unit after a power failure, if it is more than one block.
func atomicUnits(s *storage.Shape, id *capsule.IdentifyNamespace) {
	if s.Info.AtomicUnit < 2*s.Info.BlockSize {
		return
	}
	id.NSFEAT |= capsule.NSFEATAtomic
	id.NAWUPF = uint16(min(s.Info.AtomicUnit>>s.Shift, 1<<16) - 1)
	id.NAWUN = id.NAWUPF
}

// reservationCapabilities returns RESCAP, zero if the namespace does not support reservations.
func reservationCapabilities(ns *storage.Namespace, s *storage.Shape) uint8 {
	if !ns.Reservable() {
		return 0
	}
	return storage.ReservationCapabilities(s.Persists)
}

func identifyIndependent(c *Controller, r *request, _ capsule.Identify) capsule.Status {
	ns, status := c.view.Lookup(r.cmd.NSID)
	if ns == nil {
		return status
	}
	shape, known := ns.Shape()
	if !known { // NSTAT reports that it is not ready
		id := capsule.IdentifyNamespaceIndependent{NMIC: capsule.NMICShared, ANAGRPID: uint32(ns.Shown())}
		id.Encode(r.data)
		return capsule.StatusSuccess
	}
	id := capsule.IdentifyNamespaceIndependent{
		NMIC: capsule.NMICShared, RESCAP: reservationCapabilities(ns, &shape), ANAGRPID: uint32(ns.Shown()), NSATTR: c.attributes(ns),
		NSTAT: capsule.NSTATReady,
	}
	id.Encode(r.data)
	return capsule.StatusSuccess
}

// identifyActive lists namespaces with identifiers above the command's NSID.
func identifyActive(c *Controller, r *request, _ capsule.Identify) capsule.Status {
	if r.cmd.NSID >= capsule.NSIDBroadcast-1 {
		return capsule.StatusInvalidNamespace | capsule.StatusDNR
	}
	r.chargeAll(lookCost)
	capsule.PutNamespaceList(r.data, c.view.Above(r.cmd.NSID))
	return capsule.StatusSuccess
}

func identifyActiveCSI(c *Controller, r *request, f capsule.Identify) capsule.Status {
	if f.CSI != capsule.CSINVM {
		return r.invalid(11, 24)
	}
	return identifyActive(c, r, f)
}

// identifyControllers lists the subsystem's controllers from the given identifier on.
func identifyControllers(c *Controller, r *request, f capsule.Identify) capsule.Status {
	capsule.PutControllerList(r.data, c.subsystem.controllersFrom(f.CNTID, 0))
	return capsule.StatusSuccess
}

// identifyNamespaceControllers lists those whose hosts see the namespace.
func identifyNamespaceControllers(c *Controller, r *request, f capsule.Identify) capsule.Status {
	if ns, _ := c.view.Lookup(r.cmd.NSID); ns == nil {
		return r.invalid(1, 0)
	}
	capsule.PutControllerList(r.data, c.subsystem.controllersFrom(f.CNTID, r.cmd.NSID))
	return capsule.StatusSuccess
}

// controllersFrom lists controllers by identifier, ascending: all, or those that have a namespace.
func (s *Subsystem) controllersFrom(first capsule.ControllerID, with capsule.NSID) []capsule.ControllerID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []capsule.ControllerID
	for id, c := range s.controllers {
		if id >= first && (with == 0 || c.view.Find(with) != nil) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func identifyDescriptors(c *Controller, r *request, _ capsule.Identify) capsule.Status {
	ns, _ := c.view.Lookup(r.cmd.NSID)
	if ns == nil {
		return capsule.StatusInvalidNamespace | capsule.StatusDNR
	}
	rest := r.data
	if ns.EUI64 != [8]byte{} {
		rest = capsule.PutDescriptor(rest, capsule.DescriptorEUI64, ns.EUI64[:])
	}
	rest = capsule.PutDescriptor(rest, capsule.DescriptorNGUID, ns.NGUID[:])
	rest = capsule.PutDescriptor(rest, capsule.DescriptorUUID, ns.UUID[:])
	capsule.PutDescriptor(rest, capsule.DescriptorCSI, []byte{byte(capsule.CSINVM)})
	if _, known := ns.Shape(); known {
		c.identified(ns, state.IdentifyDescriptors)
	}
	return capsule.StatusSuccess
}

func identifyNamespaceCSI(c *Controller, r *request, f capsule.Identify) capsule.Status {
	if f.CSI != capsule.CSINVM {
		return r.invalid(11, 24)
	}
	_, status := c.view.Lookup(r.cmd.NSID) // all zero: no protection information
	return status
}

// identifyControllerCSI reports no limits beyond MDTS; the number of ranges of Dataset Management is limited by
// its format.
func identifyControllerCSI(_ *Controller, r *request, f capsule.Identify) capsule.Status {
	if f.CSI != capsule.CSINVM {
		return r.invalid(11, 24)
	}
	id := capsule.IdentifyNVMController{}
	id.Encode(r.data)
	return capsule.StatusSuccess
}

// identifyCommandSets returns one combination: only the NVM command set.
func identifyCommandSets(_ *Controller, r *request, _ capsule.Identify) capsule.Status {
	r.data[0] = 1 << capsule.CSINVM
	return capsule.StatusSuccess
}
