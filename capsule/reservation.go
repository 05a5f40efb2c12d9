package capsule

import "fmt"

// ReservationType is the type of a reservation: what it denies to other hosts (NVMe base 2.0, 8.19).
type ReservationType uint8

const (
	ReservationNone                           ReservationType = 0
	ReservationWriteExclusive                 ReservationType = 1
	ReservationExclusiveAccess                ReservationType = 2
	ReservationWriteExclusiveRegistrantsOnly  ReservationType = 3
	ReservationExclusiveAccessRegistrantsOnly ReservationType = 4
	ReservationWriteExclusiveAllRegistrants   ReservationType = 5
	ReservationExclusiveAccessAllRegistrants  ReservationType = 6
)

var reservationNames = [...]string{
	"none", "write-exclusive", "exclusive-access", "write-exclusive-registrants-only", "exclusive-access-registrants-only",
	"write-exclusive-all-registrants", "exclusive-access-all-registrants",
}

func (t ReservationType) String() string {
	if int(t) < len(reservationNames) {
		return reservationNames[t]
	}
	return fmt.Sprintf("reservation type %d", uint8(t))
}

// Valid reports whether the type is one of the six defined ones.
func (t ReservationType) Valid() bool {
	return t >= ReservationWriteExclusive && t <= ReservationExclusiveAccessAllRegistrants
}

// AllRegistrants reports whether every registrant is a holder.
func (t ReservationType) AllRegistrants() bool {
	return t == ReservationWriteExclusiveAllRegistrants || t == ReservationExclusiveAccessAllRegistrants
}

// RegistrantsOnly reports whether registrants may do what the holder may.
func (t ReservationType) RegistrantsOnly() bool {
	return t == ReservationWriteExclusiveRegistrantsOnly || t == ReservationExclusiveAccessRegistrantsOnly
}

// ReservationKey is the key with which a host registers.
type ReservationKey uint64

// Actions of the reservation commands. Others are reserved.
const (
	RegisterKey            uint8 = 0
	UnregisterKey          uint8 = 1
	ReplaceKey             uint8 = 2
	AcquireReservation     uint8 = 0
	PreemptReservation     uint8 = 1
	PreemptAndAbort        uint8 = 2
	ReleaseReservation     uint8 = 0
	ClearReservation       uint8 = 1
	PersistNoChange        uint8 = 0 // CPTPL
	PersistClear           uint8 = 2
	PersistSet             uint8 = 3
	ReservationKeysSize          = 16 // bytes of data of Register and Acquire
	ReservationReleaseSize       = 8
)

// ReservationCommand are the fields of Reservation Register, Acquire and Release. Each command uses some of them.
type ReservationCommand struct {
	Action    uint8           // RREGA, RACQA, RRELA
	IgnoreKey bool            // IEKEY
	Type      ReservationType // Acquire, Release
	Persist   uint8           // Register: CPTPL
}

// ReservationCommand decodes the fields of such a command.
func (c *Command) ReservationCommand() ReservationCommand {
	return ReservationCommand{
		Action: uint8(bits(c.CDW10, 0, 3)), IgnoreKey: c.CDW10>>3&1 != 0,
		Type: ReservationType(bits(c.CDW10, 8, 8)), Persist: uint8(bits(c.CDW10, 30, 2)),
	}
}

// Put stores the fields in a command.
func (r ReservationCommand) Put(c *Command) {
	c.CDW10 = uint32(r.Action&7) | flag(r.IgnoreKey, 3) | uint32(r.Type)<<8 | uint32(r.Persist&3)<<30
}

// ReservationKeys are the data of Register (CRKEY, NRKEY) and Acquire (CRKEY, PRKEY).
type ReservationKeys struct {
	Current ReservationKey
	Other   ReservationKey
}

func (k *ReservationKeys) fields(l layout) {
	u64(l, 0, &k.Current)
	u64(l, 8, &k.Other)
}

// DecodeReservationKeys decodes the 16 bytes at the start of b.
func DecodeReservationKeys(b []byte) (k ReservationKeys, err error) {
	l, err := decoder(b, ReservationKeysSize)
	if err == nil {
		k.fields(l)
	}
	return k, err
}

// Encode fills the first 16 bytes of b.
func (k ReservationKeys) Encode(b []byte) { k.fields(encoder(b, ReservationKeysSize)) }

// ReservationReport are the fields of a Reservation Report command.
type ReservationReport struct {
	Length   uint64 // bytes, a multiple of 4; on the wire dwords less one
	Extended bool   // EDS: host identifiers of 16 bytes
}

// ReservationReport decodes the fields of a Reservation Report command.
func (c *Command) ReservationReport() ReservationReport {
	return ReservationReport{(uint64(c.CDW10) + 1) * 4, c.CDW11&1 != 0}
}

// Put stores the fields in a command.
func (r ReservationReport) Put(c *Command) {
	c.CDW10, c.CDW11 = uint32(r.Length/4-1), flag(r.Extended, 0)
}

// Lengths of the extended data structure of Reservation Report in bytes.
const (
	ReservationStatusSize     = 64 // before the registrants
	ReservationRegistrantSize = 64
)

// ReservationStatus is the header of the extended data structure of Reservation Report.
type ReservationStatus struct {
	Generation  uint32
	Type        ReservationType
	Registrants uint16 // number of registrants that follow
	Persist     uint8  // PTPLS: 1 through power loss
}

func (s *ReservationStatus) fields(l layout) {
	u32(l, 0, &s.Generation)
	u8(l, 4, &s.Type)
	u16(l, 5, &s.Registrants)
	u8(l, 9, &s.Persist)
}

// DecodeReservationStatus decodes the 64 bytes at the start of b.
func DecodeReservationStatus(b []byte) (s ReservationStatus, err error) {
	l, err := decoder(b, ReservationStatusSize)
	if err == nil {
		s.fields(l)
	}
	return s, err
}

// Encode fills the first 64 bytes of b.
func (s ReservationStatus) Encode(b []byte) { s.fields(encoder(b, ReservationStatusSize)) }

// ReservationRegistrant is one entry of the extended data structure.
type ReservationRegistrant struct {
	CNTLID ControllerID // FFFFh under the dynamic controller model
	Holds  uint8        // RCSTS: 1 if the host holds the reservation
	Key    ReservationKey
	Host   HostID
}

func (r *ReservationRegistrant) fields(l layout) {
	u16(l, 0, &r.CNTLID)
	u8(l, 2, &r.Holds)
	u64(l, 8, &r.Key)
	l.bytes(16, r.Host[:])
}

// DecodeReservationRegistrant decodes the 64 bytes at the start of b.
func DecodeReservationRegistrant(b []byte) (r ReservationRegistrant, err error) {
	l, err := decoder(b, ReservationRegistrantSize)
	if err == nil {
		r.fields(l)
	}
	return r, err
}

// Encode fills the first 64 bytes of b.
func (r ReservationRegistrant) Encode(b []byte) { r.fields(encoder(b, ReservationRegistrantSize)) }

// ReservationNotice is the type of a Reservation Notification log page.
type ReservationNotice uint8

const (
	NoticeNone                  ReservationNotice = 0
	NoticeRegistrationPreempted ReservationNotice = 1
	NoticeReservationReleased   ReservationNotice = 2
	NoticeReservationPreempted  ReservationNotice = 3
)

// ReservationLogSize is the length of the page in bytes.
const ReservationLogSize = 64

// ReservationLog is the Reservation Notification log page (NVMe base 2.0, 5.16.1.24).
type ReservationLog struct {
	Count     uint64 // number of pages since the controller was reset; 0: empty page
	Notice    ReservationNotice
	Available uint8 // number of further pages
	NSID      NSID
}

func (r *ReservationLog) fields(l layout) {
	u64(l, 0, &r.Count)
	u8(l, 8, &r.Notice)
	u8(l, 9, &r.Available)
	u32(l, 12, &r.NSID)
}

// DecodeReservationLog decodes the 64 bytes at the start of b.
func DecodeReservationLog(b []byte) (r ReservationLog, err error) {
	l, err := decoder(b, ReservationLogSize)
	if err == nil {
		r.fields(l)
	}
	return r, err
}

// Encode fills the first 64 bytes of b.
func (r ReservationLog) Encode(b []byte) { r.fields(encoder(b, ReservationLogSize)) }

// Bits of RESCAP.
const (
	RESCAPPersist   uint8 = 1 << 0 // through power loss
	RESCAPAllTypes  uint8 = 0x7e
	RESCAPIgnoreKey uint8 = 1 << 7 // as NVMe 1.3 and later define it
)

// Bits of the Reservation Notification Mask feature. The value of a notice is the number of its bit.
const ReservationMaskAll uint32 = 1<<NoticeRegistrationPreempted | 1<<NoticeReservationReleased | 1<<NoticeReservationPreempted

// EventReservationLog is the information of an event of type EventTypeIOSet.
const EventReservationLog uint8 = 0
