package capsule

// CNS selects what Identify returns.
type CNS uint8

// CNS values (NVMe base 2.0, 5.17).
const (
	CNSNamespace            CNS = 0x00
	CNSController           CNS = 0x01
	CNSActiveNamespaces     CNS = 0x02
	CNSDescriptors          CNS = 0x03
	CNSNVMSets              CNS = 0x04
	CNSNamespaceCSI         CNS = 0x05 // I/O command set specific namespace
	CNSControllerCSI        CNS = 0x06 // I/O command set specific controller
	CNSActiveNamespacesCSI  CNS = 0x07
	CNSNamespaceIndependent CNS = 0x08 // I/O command set independent namespace
	CNSAllocatedNamespaces  CNS = 0x10
	CNSAllocatedNamespace   CNS = 0x11
	CNSNamespaceControllers CNS = 0x12
	CNSControllers          CNS = 0x13
	CNSPrimaryCapabilities  CNS = 0x14
	CNSSecondaryControllers CNS = 0x15
	CNSUUIDs                CNS = 0x17
	CNSCommandSets          CNS = 0x1c
)

// CSI is an I/O command set.
type CSI uint8

const (
	CSINVM CSI = 0x00
	CSIKV  CSI = 0x01
	CSIZNS CSI = 0x02
)

// IdentifySize is the length of all Identify data in bytes.
const IdentifySize = 4096

// Identify are the fields of an Identify command.
type Identify struct {
	CNS    CNS
	CNTID  ControllerID
	CNSSID uint16
	CSI    CSI
	UUID   uint8 // index, 7 bits
}

// Identify decodes the fields of an Identify command.
func (c *Command) Identify() Identify {
	return Identify{
		CNS: CNS(c.CDW10), CNTID: ControllerID(c.CDW10 >> 16),
		CNSSID: uint16(c.CDW11), CSI: CSI(c.CDW11 >> 24), UUID: uint8(c.CDW14 & 0x7f),
	}
}

// Put stores the fields in a command.
func (i Identify) Put(c *Command) {
	c.CDW10 = uint32(i.CNS) | uint32(i.CNTID)<<16
	c.CDW11 = uint32(i.CNSSID) | uint32(i.CSI)<<24
	c.CDW14 = uint32(i.UUID & 0x7f)
}

// LID is a log page identifier.
type LID uint8

// Log pages.
const (
	LogSupportedPages    LID = 0x00
	LogError             LID = 0x01
	LogSMART             LID = 0x02
	LogFirmwareSlot      LID = 0x03
	LogChangedNamespaces LID = 0x04
	LogEffects           LID = 0x05
	LogSelfTest          LID = 0x06
	LogTelemetryHost     LID = 0x07
	LogTelemetryCtrl     LID = 0x08
	LogEnduranceGroup    LID = 0x09
	LogANA               LID = 0x0c
	LogPersistentEvent   LID = 0x0d
	LogFIDEffects        LID = 0x12
	LogMIEffects         LID = 0x13 // NVMe-MI commands
	LogDiscovery         LID = 0x70
	LogReservation       LID = 0x80
	LogSanitize          LID = 0x81
)

// GetLogPage are the fields of a Get Log Page command.
type GetLogPage struct {
	LID    LID
	LSP    uint8  // log specific, 7 bits
	RAE    bool   // retain asynchronous event
	Length uint64 // bytes, a multiple of 4 up to 16 GiB; on the wire dwords less one
	LSI    uint16
	LPO    uint64 // offset in bytes, or an index with OT
	UUID   uint8
	OT     bool // LPO is an index
	CSI    CSI
}

// GetLogPage decodes the fields of a Get Log Page command.
func (c *Command) GetLogPage() GetLogPage {
	numd := uint64(c.CDW11&0xffff)<<16 | uint64(c.CDW10>>16)
	return GetLogPage{
		LID: LID(c.CDW10), LSP: uint8(bits(c.CDW10, 8, 7)), RAE: c.CDW10>>15&1 != 0,
		Length: (numd + 1) * 4, LSI: uint16(c.CDW11 >> 16),
		LPO:  uint64(c.CDW13)<<32 | uint64(c.CDW12),
		UUID: uint8(c.CDW14 & 0x7f), OT: c.CDW14>>23&1 != 0, CSI: CSI(c.CDW14 >> 24),
	}
}

// Put stores the fields in a command.
func (g GetLogPage) Put(c *Command) {
	numd := g.Length/4 - 1
	c.CDW10 = uint32(g.LID) | uint32(g.LSP&0x7f)<<8 | flag(g.RAE, 15) | uint32(numd)<<16
	c.CDW11 = uint32(numd>>16)&0xffff | uint32(g.LSI)<<16
	c.CDW12, c.CDW13 = uint32(g.LPO), uint32(g.LPO>>32)
	c.CDW14 = uint32(g.UUID&0x7f) | flag(g.OT, 23) | uint32(g.CSI)<<24
}

// Abort are the fields of an Abort command.
type Abort struct {
	SQID QID
	CID  CID
}

// Abort decodes the fields of an Abort command.
func (c *Command) Abort() Abort { return Abort{SQID: QID(c.CDW10), CID: CID(c.CDW10 >> 16)} }

// Put stores the fields in a command.
func (a Abort) Put(c *Command) { c.CDW10 = uint32(a.SQID) | uint32(a.CID)<<16 }
