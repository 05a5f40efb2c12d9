package capsule

// ControllerType is CNTRLTYPE.
type ControllerType uint8

const (
	ControllerTypeNone      ControllerType = 0 // not reported
	ControllerTypeIO        ControllerType = 1
	ControllerTypeDiscovery ControllerType = 2
	ControllerTypeAdmin     ControllerType = 3
)

// Bits of CMIC.
const (
	CMICManyPorts       uint8 = 1 << 0
	CMICManyControllers uint8 = 1 << 1
	CMICANA             uint8 = 1 << 3
)

// Bits of CTRATT.
const (
	CTRATTHostID128 uint32 = 1 << 0 // extended host identifiers
	CTRATTTBKAS     uint32 = 1 << 6 // traffic restarts the keep alive timer
)

// Bits of OACS.
const (
	OACSSecurity            uint16 = 1 << 0
	OACSFormat              uint16 = 1 << 1
	OACSFirmware            uint16 = 1 << 2
	OACSNamespaceManagement uint16 = 1 << 3
)

// Bits of LPA.
const (
	LPASMARTPerNamespace uint8 = 1 << 0
	LPAEffects           uint8 = 1 << 1
	LPAExtendedData      uint8 = 1 << 2 // Get Log Page takes offsets and 32 bit lengths
	LPAPersistentEvent   uint8 = 1 << 4 // log 0Dh
	LPASupport           uint8 = 1 << 5 // logs 00h, 12h and 13h
)

// Bits of ONCS.
const (
	ONCSCompare            uint16 = 1 << 0
	ONCSWriteUncorrectable uint16 = 1 << 1
	ONCSDatasetManagement  uint16 = 1 << 2
	ONCSWriteZeroes        uint16 = 1 << 3
	ONCSFeatureSave        uint16 = 1 << 4
	ONCSReservations       uint16 = 1 << 5
	ONCSTimestamp          uint16 = 1 << 6
	ONCSVerify             uint16 = 1 << 7
	ONCSCopy               uint16 = 1 << 8
)

// Bits of FUSES and VWC. VWCFlushAll says that Flush of all namespaces is supported, VWCFlushNone that it is not.
const (
	FUSESCompareWrite uint16 = 1 << 0
	VWCPresent        uint8  = 1 << 0
	VWCFlushNone      uint8  = 2 << 1
	VWCFlushAll       uint8  = 3 << 1
)

// Bits of SGLS.
const (
	SGLSSupported uint32 = 1 << 0 // without alignment or granularity
	SGLSKeyed     uint32 = 1 << 2
	SGLSOffset    uint32 = 1 << 20 // the offset subtype: data in capsules
)

// Bits of OFCS and FCATT. FCATTDisconnect says that I/O queues can be deleted individually with the Disconnect command
// (OFCS bit 0). FCATTDynamic says that the controller model is dynamic (FCATT bit 0 is clear).
const (
	FCATTStatic    uint8  = 1 << 0
	OFCSDisconnect uint16 = 1 << 0
)
