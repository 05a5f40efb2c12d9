package capsule

import "fmt"

// Direction is the direction of a command's data transfer: bits 1:0 of every opcode and of FCTYPE (NVMe base 2.0,
// figure 88).
type Direction uint8

const (
	NoData           Direction = 0
	HostToController Direction = 1
	ControllerToHost Direction = 2
	Bidirectional    Direction = 3
)

func (d Direction) String() string {
	return [...]string{"no data", "host to controller", "controller to host", "bidirectional"}[d&3]
}

// OpcodeFabrics is the opcode of all fabrics commands, on every queue.
const OpcodeFabrics Opcode = 0x7f

// AdminOpcode is the opcode of a command on the admin queue.
type AdminOpcode Opcode

const (
	AdminDeleteSQ            AdminOpcode = 0x00
	AdminCreateSQ            AdminOpcode = 0x01
	AdminGetLogPage          AdminOpcode = 0x02
	AdminDeleteCQ            AdminOpcode = 0x04
	AdminCreateCQ            AdminOpcode = 0x05
	AdminIdentify            AdminOpcode = 0x06
	AdminAbort               AdminOpcode = 0x08
	AdminSetFeatures         AdminOpcode = 0x09
	AdminGetFeatures         AdminOpcode = 0x0a
	AdminAsyncEvent          AdminOpcode = 0x0c
	AdminNamespaceManagement AdminOpcode = 0x0d
	AdminFirmwareCommit      AdminOpcode = 0x10
	AdminFirmwareDownload    AdminOpcode = 0x11
	AdminDeviceSelfTest      AdminOpcode = 0x14
	AdminNamespaceAttachment AdminOpcode = 0x15
	AdminKeepAlive           AdminOpcode = 0x18
	AdminDirectiveSend       AdminOpcode = 0x19
	AdminDirectiveReceive    AdminOpcode = 0x1a
	AdminVirtualization      AdminOpcode = 0x1c
	AdminMISend              AdminOpcode = 0x1d
	AdminMIReceive           AdminOpcode = 0x1e
	AdminCapacity            AdminOpcode = 0x20
	AdminLockdown            AdminOpcode = 0x24
	AdminDoorbellBuffer      AdminOpcode = 0x7c
	AdminFabrics             AdminOpcode = 0x7f
	AdminFormat              AdminOpcode = 0x80
	AdminSecuritySend        AdminOpcode = 0x81
	AdminSecurityReceive     AdminOpcode = 0x82
	AdminSanitize            AdminOpcode = 0x84
	AdminGetLBAStatus        AdminOpcode = 0x86
)

var adminNames = [256]string{
	AdminDeleteSQ: "Delete I/O Submission Queue", AdminCreateSQ: "Create I/O Submission Queue",
	AdminGetLogPage: "Get Log Page", AdminDeleteCQ: "Delete I/O Completion Queue",
	AdminCreateCQ: "Create I/O Completion Queue", AdminIdentify: "Identify", AdminAbort: "Abort",
	AdminSetFeatures: "Set Features", AdminGetFeatures: "Get Features",
	AdminAsyncEvent: "Asynchronous Event Request", AdminNamespaceManagement: "Namespace Management",
	AdminFirmwareCommit: "Firmware Commit", AdminFirmwareDownload: "Firmware Image Download",
	AdminDeviceSelfTest: "Device Self-test", AdminNamespaceAttachment: "Namespace Attachment",
	AdminKeepAlive: "Keep Alive", AdminDirectiveSend: "Directive Send",
	AdminDirectiveReceive: "Directive Receive", AdminVirtualization: "Virtualization Management",
	AdminMISend: "NVMe-MI Send", AdminMIReceive: "NVMe-MI Receive",
	AdminCapacity: "Capacity Management", AdminLockdown: "Lockdown",
	AdminDoorbellBuffer: "Doorbell Buffer Config", AdminFabrics: "Fabrics", AdminFormat: "Format NVM",
	AdminSecuritySend: "Security Send", AdminSecurityReceive: "Security Receive",
	AdminSanitize: "Sanitize", AdminGetLBAStatus: "Get LBA Status",
}

// Direction returns the direction of the data transfer.
func (o AdminOpcode) Direction() Direction { return Direction(o & 3) }

// Known reports whether the specification defines the opcode.
func (o AdminOpcode) Known() bool { return adminNames[o] != "" }

func (o AdminOpcode) String() string { return opcodeName("admin opcode", adminNames[o], uint8(o)) }

// IOOpcode is the opcode of a command of the NVM command set on an I/O queue.
type IOOpcode Opcode

const (
	IOFlush               IOOpcode = 0x00
	IOWrite               IOOpcode = 0x01
	IORead                IOOpcode = 0x02
	IOWriteUncorrectable  IOOpcode = 0x04
	IOCompare             IOOpcode = 0x05
	IOWriteZeroes         IOOpcode = 0x08
	IODatasetManagement   IOOpcode = 0x09
	IOVerify              IOOpcode = 0x0c
	IOReservationRegister IOOpcode = 0x0d
	IOReservationReport   IOOpcode = 0x0e
	IOReservationAcquire  IOOpcode = 0x11
	IOCancel              IOOpcode = 0x18
	IOReservationRelease  IOOpcode = 0x15
	IOCopy                IOOpcode = 0x19
	IOFabrics             IOOpcode = 0x7f
)

var ioNames = [256]string{
	IOFlush: "Flush", IOWrite: "Write", IORead: "Read", IOWriteUncorrectable: "Write Uncorrectable",
	IOCompare: "Compare", IOWriteZeroes: "Write Zeroes", IODatasetManagement: "Dataset Management",
	IOVerify: "Verify", IOReservationRegister: "Reservation Register",
	IOReservationReport: "Reservation Report", IOReservationAcquire: "Reservation Acquire",
	IOCancel: "Cancel", IOReservationRelease: "Reservation Release", IOCopy: "Copy",
	IOFabrics: "Fabrics",
}

// Direction returns the direction of the data transfer.
func (o IOOpcode) Direction() Direction { return Direction(o & 3) }

// Known reports whether the specification defines the opcode.
func (o IOOpcode) Known() bool { return ioNames[o] != "" }

func (o IOOpcode) String() string { return opcodeName("I/O opcode", ioNames[o], uint8(o)) }

// FabricsType is the FCTYPE of a fabrics command.
type FabricsType uint8

const (
	FabricsPropertySet FabricsType = 0x00
	FabricsConnect     FabricsType = 0x01
	FabricsPropertyGet FabricsType = 0x04
	FabricsAuthSend    FabricsType = 0x05
	FabricsAuthReceive FabricsType = 0x06
	FabricsDisconnect  FabricsType = 0x08
)

var fabricsNames = [256]string{
	FabricsPropertySet: "Property Set", FabricsConnect: "Connect",
	FabricsPropertyGet: "Property Get", FabricsAuthSend: "Authentication Send",
	FabricsAuthReceive: "Authentication Receive", FabricsDisconnect: "Disconnect",
}

// Direction returns the direction of the data transfer.
func (t FabricsType) Direction() Direction { return Direction(t & 3) }

// Known reports whether the specification defines the type.
func (t FabricsType) Known() bool { return fabricsNames[t] != "" }

func (t FabricsType) String() string { return opcodeName("fabrics type", fabricsNames[t], uint8(t)) }

func opcodeName(space, name string, n uint8) string {
	if name == "" {
		return fmt.Sprintf("%s %#02x", space, n)
	}
	return name
}
