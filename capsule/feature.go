package capsule

// FID is a feature identifier.
type FID uint8

// Features (NVMe base 2.0, 5.27.1).
const (
	FeatureArbitration           FID = 0x01
	FeaturePowerManagement       FID = 0x02
	FeatureLBARange              FID = 0x03
	FeatureTemperatureThreshold  FID = 0x04
	FeatureErrorRecovery         FID = 0x05
	FeatureVolatileWriteCache    FID = 0x06
	FeatureNumberOfQueues        FID = 0x07
	FeatureInterruptCoalescing   FID = 0x08
	FeatureInterruptVector       FID = 0x09
	FeatureWriteAtomicity        FID = 0x0a
	FeatureAsyncEvent            FID = 0x0b
	FeatureAutonomousPower       FID = 0x0c
	FeatureHostMemoryBuffer      FID = 0x0d
	FeatureTimestamp             FID = 0x0e
	FeatureKeepAliveTimer        FID = 0x0f
	FeatureHostBehavior          FID = 0x16
	FeatureSanitizeConfig        FID = 0x17
	FeatureProgressMarker        FID = 0x80 // of software that starts up
	FeatureHostID                FID = 0x81
	FeatureReservationMask       FID = 0x82
	FeatureReservationPersist    FID = 0x83
	FeatureNamespaceWriteProtect FID = 0x84
)

// Lengths of features that have data, in bytes.
const (
	TimestampSize      = 8
	HostBehaviorSize   = 512
	HostIDSize         = 16 // extended host identifier (EXHID)
	HostIDShortSize    = 8
	LBARangeTypeSize   = 4096
	MaxTimestampMillis = 1<<48 - 1
)

// FeatureSelect selects the value that Get Features returns.
type FeatureSelect uint8

const (
	SelectCurrent FeatureSelect = iota
	SelectDefault
	SelectSaved
	SelectSupported // capabilities in DW0
)

// Bits of DW0 for SelectSupported.
const (
	FeatureSaveable          uint32 = 1 << 0
	FeatureNamespaceSpecific uint32 = 1 << 1
	FeatureChangeable        uint32 = 1 << 2
)

// GetFeatures are the fields of a Get Features command. The meaning of CDW11 depends on the feature.
type GetFeatures struct {
	FID    FID
	Select FeatureSelect
	Value  uint32 // CDW11
}

// GetFeatures decodes the fields of a Get Features command.
func (c *Command) GetFeatures() GetFeatures {
	return GetFeatures{FID(c.CDW10), FeatureSelect(bits(c.CDW10, 8, 3)), c.CDW11}
}

// Put stores the fields in a command.
func (f GetFeatures) Put(c *Command) {
	c.CDW10 = uint32(f.FID) | uint32(f.Select&7)<<8
	c.CDW11 = f.Value
}

// SetFeatures are the fields of a Set Features command.
type SetFeatures struct {
	FID   FID
	Save  bool
	Value uint32 // CDW11
}

// SetFeatures decodes the fields of a Set Features command.
func (c *Command) SetFeatures() SetFeatures {
	return SetFeatures{FID(c.CDW10), c.CDW10>>31 != 0, c.CDW11}
}

// Put stores the fields in a command.
func (f SetFeatures) Put(c *Command) {
	c.CDW10 = uint32(f.FID) | flag(f.Save, 31)
	c.CDW11 = f.Value
}

// QueueCounts is the value of the Number of Queues feature, counted from one; the wire has one less.
type QueueCounts struct {
	Submission, Completion int
}

// ParseQueueCounts reads CDW11 of Set Features or DW0 of its completion.
func ParseQueueCounts(v uint32) QueueCounts {
	return QueueCounts{int(v&0xffff) + 1, int(v>>16) + 1}
}

// Value is the wire form.
func (q QueueCounts) Value() uint32 {
	return uint32(q.Submission-1)&0xffff | uint32(q.Completion-1)<<16
}

// Bits of the Asynchronous Event Configuration feature and of OAES. EventSMART covers the bits of
// [SMARTLog.CriticalWarning].
const (
	EventSMART              uint32 = 0xff
	EventNamespaceAttribute uint32 = 1 << 8
	EventFirmwareActivation uint32 = 1 << 9
	EventANAChange          uint32 = 1 << 11
	EventDiscoveryChange    uint32 = 1 << 31
)

// EventType is the type of an asynchronous event.
type EventType uint8

const (
	EventTypeError     EventType = 0
	EventTypeSMART     EventType = 1
	EventTypeNotice    EventType = 2
	EventTypeImmediate EventType = 3
	EventTypeIOSet     EventType = 6
	EventTypeVendor    EventType = 7
)

// Event information of EventTypeError and EventTypeSMART.
const (
	ErrorPersistentInternal uint8 = 0x03
	ErrorTransientInternal  uint8 = 0x04

	SMARTReliability uint8 = 0x00
	SMARTTemperature uint8 = 0x01
	SMARTSpare       uint8 = 0x02
)

// Event information of EventTypeNotice.
const (
	NoticeNamespaceChanged   uint8 = 0x00
	NoticeFirmwareActivation uint8 = 0x01
	NoticeTelemetryChanged   uint8 = 0x02
	NoticeANAChange          uint8 = 0x03
	NoticeDiscoveryChange    uint8 = 0xf0
)

// AsyncEvent is the result of an Asynchronous Event Request (NVMe base 2.0, 5.2.1).
type AsyncEvent struct {
	Type EventType
	Info uint8
	LID  LID // the log page with details; reading it re-arms the event
}

// ParseAsyncEvent decodes DW0 of the completion.
func ParseAsyncEvent(dw0 uint32) AsyncEvent {
	return AsyncEvent{EventType(dw0 & 7), uint8(dw0 >> 8), LID(dw0 >> 16)}
}

// Value encodes DW0 of the completion.
func (e AsyncEvent) Value() uint32 {
	return uint32(e.Type&7) | uint32(e.Info)<<8 | uint32(e.LID)<<16
}

// TemperatureThreshold is the value of the Temperature Threshold feature (NVMe base 2.0, 5.27.1.3).
type TemperatureThreshold struct {
	Kelvins uint16
	Sensor  uint8 // 0: composite; 1 to 8; AllSensors in Set Features
	Under   bool  // the lower threshold
	Invalid bool  // THSEL is reserved
}

// AllSensors selects all implemented sensors.
const AllSensors = 0xf

// ParseTemperatureThreshold decodes CDW11.
func ParseTemperatureThreshold(v uint32) TemperatureThreshold {
	which := bits(v, 20, 2)
	return TemperatureThreshold{uint16(v), uint8(bits(v, 16, 4)), which == 1, which > 1}
}

// WriteProtection is the write protection state of a namespace (NVM command set 1.0, 4.1.3): the value of feature 84h.
type WriteProtection uint8

const (
	WriteProtectNone       WriteProtection = 0
	WriteProtected         WriteProtection = 1
	WriteProtectedUntilOff WriteProtection = 2 // until the next power cycle
	WriteProtectedForGood  WriteProtection = 3
)

// Bits of NWPC.
const (
	NWPCSupported uint8 = 1 << 0
	NWPCUntilOff  uint8 = 1 << 1
	NWPCForGood   uint8 = 1 << 2
)

// FeatureEffects describes one feature in log page 12h.
type FeatureEffects uint32

const (
	FIDSupported        FeatureEffects = 1 << 0
	FIDUserDataChange   FeatureEffects = 1 << 1
	FIDNamespaceScope   FeatureEffects = 1 << 20
	FIDControllerScope  FeatureEffects = 1 << 21
	FIDSubsystemScope   FeatureEffects = 1 << 25
	FIDNamespaceChanges FeatureEffects = 1 << 2 // of a capability
)
