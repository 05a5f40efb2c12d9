package capsule

import "encoding/binary"

// Lengths of log pages and of their parts in bytes.
const (
	ErrorLogEntrySize   = 64
	SMARTLogSize        = 512
	FirmwareLogSize     = 512
	EffectsLogSize      = 4096
	ANALogHeaderSize    = 16
	ANADescriptorHeader = 32
)

// ParameterUnknown is the Parameter of an [ErrorLogEntry] for an error that concerns no particular or no known field.
const ParameterUnknown uint16 = 0xffff

// ParameterAt returns the Parameter for a bit of a dword of the command.
func ParameterAt(dword, bit int) uint16 { return uint16(4*dword+bit/8) | uint16(bit%8)<<8 }

// ErrorLogEntry is one entry of the Error Information log (NVMe base 2.0, 5.16.1.2).
type ErrorLogEntry struct {
	Count     uint64 // number of the error in the life of the controller; 0: unused entry
	SQID      QID
	CID       CID
	Status    Status
	Phase     bool   // the phase tag of its completion
	Parameter uint16 // byte in 7:0 and bit in 10:8 of the command; see ParameterAt
	LBA       LBA
	NSID      NSID
	VSI       uint8
	TRTYPE    TransportType
	CSI       CSI
	Opcode    Opcode
	Specific  uint64
	TTSI      uint16
	Version   uint8 // of the log page's format
}

func (e *ErrorLogEntry) fields(l layout) {
	u64(l, 0, &e.Count)
	u16(l, 8, &e.SQID)
	u16(l, 10, &e.CID)
	status := e.Status<<1 | Status(flag(e.Phase, 0)) // bit 0 is the phase tag
	u16(l, 12, &status)
	e.Status, e.Phase = status>>1, status&1 != 0
	u16(l, 14, &e.Parameter)
	u64(l, 16, &e.LBA)
	u32(l, 24, &e.NSID)
	u8(l, 28, &e.VSI)
	u8(l, 29, &e.TRTYPE)
	u8(l, 30, &e.CSI)
	u8(l, 31, &e.Opcode)
	u64(l, 32, &e.Specific)
	u16(l, 40, &e.TTSI)
	u8(l, 63, &e.Version)
}

// DecodeErrorLogEntry decodes the 64 bytes at the start of b.
func DecodeErrorLogEntry(b []byte) (e ErrorLogEntry, err error) {
	l, err := decoder(b, ErrorLogEntrySize)
	if err == nil {
		e.fields(l)
	}
	return e, err
}

// Encode fills the first 64 bytes of b.
func (e ErrorLogEntry) Encode(b []byte) { e.fields(encoder(b, ErrorLogEntrySize)) }

// SMARTLog is the SMART / Health Information log (NVMe base 2.0, 5.16.1.3).
type SMARTLog struct {
	CriticalWarning         uint8
	Temperature             uint16 // kelvins
	AvailableSpare          uint8  // percent
	SpareThreshold          uint8
	PercentageUsed          uint8
	EnduranceWarning        uint8
	DataUnitsRead           Uint128 // 1000 units of 512 bytes, rounded up
	DataUnitsWritten        Uint128
	HostReads, HostWrites   Uint128 // commands
	BusyTime                Uint128 // minutes
	PowerCycles             Uint128
	PowerOnHours            Uint128
	UnsafeShutdowns         Uint128
	MediaErrors             Uint128
	ErrorLogEntries         Uint128
	WarningTemperatureTime  uint32 // minutes
	CriticalTemperatureTime uint32
	TemperatureSensors      [8]uint16
	ThermalTransitions      [2]uint32
	ThermalTime             [2]uint32 // seconds
}

// Bits of SMARTLog.CriticalWarning.
const (
	WarningSpare       uint8 = 1 << 0
	WarningTemperature uint8 = 1 << 1
	WarningReliability uint8 = 1 << 2
	WarningReadOnly    uint8 = 1 << 3
	WarningBackup      uint8 = 1 << 4
)

func (s *SMARTLog) fields(l layout) {
	u8(l, 0, &s.CriticalWarning)
	u16(l, 1, &s.Temperature)
	u8(l, 3, &s.AvailableSpare)
	u8(l, 4, &s.SpareThreshold)
	u8(l, 5, &s.PercentageUsed)
	u8(l, 6, &s.EnduranceWarning)
	l.u128(32, &s.DataUnitsRead)
	l.u128(48, &s.DataUnitsWritten)
	l.u128(64, &s.HostReads)
	l.u128(80, &s.HostWrites)
	l.u128(96, &s.BusyTime)
	l.u128(112, &s.PowerCycles)
	l.u128(128, &s.PowerOnHours)
	l.u128(144, &s.UnsafeShutdowns)
	l.u128(160, &s.MediaErrors)
	l.u128(176, &s.ErrorLogEntries)
	u32(l, 192, &s.WarningTemperatureTime)
	u32(l, 196, &s.CriticalTemperatureTime)
	for i := range s.TemperatureSensors {
		u16(l, 200+2*i, &s.TemperatureSensors[i])
	}
	for i := range s.ThermalTransitions {
		u32(l, 216+4*i, &s.ThermalTransitions[i])
		u32(l, 224+4*i, &s.ThermalTime[i])
	}
}

// DecodeSMARTLog decodes the 512 bytes at the start of b.
func DecodeSMARTLog(b []byte) (s SMARTLog, err error) {
	l, err := decoder(b, SMARTLogSize)
	if err == nil {
		s.fields(l)
	}
	return s, err
}

// Encode fills the first 512 bytes of b.
func (s *SMARTLog) Encode(b []byte) { s.fields(encoder(b, SMARTLogSize)) }

// FirmwareLog is the Firmware Slot Information log.
type FirmwareLog struct {
	AFI uint8      // active slot in 2:0, slot after the next reset in 6:4
	FRS [7][8]byte // revisions of slots 1 to 7, ASCII
}

func (f *FirmwareLog) fields(l layout) {
	u8(l, 0, &f.AFI)
	for i := range f.FRS {
		l.bytes(8+8*i, f.FRS[i][:])
	}
}

// DecodeFirmwareLog decodes the 512 bytes at the start of b.
func DecodeFirmwareLog(b []byte) (f FirmwareLog, err error) {
	l, err := decoder(b, FirmwareLogSize)
	if err == nil {
		f.fields(l)
	}
	return f, err
}

// Encode fills the first 512 bytes of b.
func (f *FirmwareLog) Encode(b []byte) { f.fields(encoder(b, FirmwareLogSize)) }

// Effects describes one command in the Commands Supported and Effects log.
type Effects uint32

const (
	EffectSupported            Effects = 1 << 0
	EffectBlockContentChange   Effects = 1 << 1
	EffectNamespaceCapability  Effects = 1 << 2
	EffectNamespaceInventory   Effects = 1 << 3
	EffectControllerCapability Effects = 1 << 4
)

// AdminEffects returns the entry of an admin command, or 0 if b is too short.
func AdminEffects(b []byte, op AdminOpcode) Effects { return effectsAt(b, int(op)) }

// IOEffects returns the entry of an I/O command, or 0 if b is too short.
func IOEffects(b []byte, op IOOpcode) Effects { return effectsAt(b, 256+int(op)) }

// PutAdminEffects sets the entry of an admin command.
func PutAdminEffects(b []byte, op AdminOpcode, e Effects) {
	binary.LittleEndian.PutUint32(b[4*int(op):], uint32(e))
}

// PutIOEffects sets the entry of an I/O command.
func PutIOEffects(b []byte, op IOOpcode, e Effects) {
	binary.LittleEndian.PutUint32(b[1024+4*int(op):], uint32(e))
}

func effectsAt(b []byte, i int) Effects {
	if 4*i+4 > len(b) {
		return 0
	}
	return Effects(binary.LittleEndian.Uint32(b[4*i:]))
}
