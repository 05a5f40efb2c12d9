package capsule

import "fmt"

// PropertyOffset is the offset of a property (NVMe base 2.0, 3.1.3).
type PropertyOffset uint32

const (
	PropertyCAP  PropertyOffset = 0x00
	PropertyVS   PropertyOffset = 0x08
	PropertyCC   PropertyOffset = 0x14
	PropertyCSTS PropertyOffset = 0x1c
	PropertyNSSR PropertyOffset = 0x20
	PropertyNSSD PropertyOffset = 0x64
	PropertyCRTO PropertyOffset = 0x68
)

// Size returns the length of the property, 4 or 8 bytes, or 0 for a property that does not exist over fabrics.
func (o PropertyOffset) Size() int {
	switch o {
	case PropertyCAP:
		return 8
	case PropertyVS, PropertyCC, PropertyCSTS, PropertyNSSR, PropertyNSSD, PropertyCRTO:
		return 4
	}
	return 0
}

func (o PropertyOffset) String() string {
	switch o {
	case PropertyCAP:
		return "CAP"
	case PropertyVS:
		return "VS"
	case PropertyCC:
		return "CC"
	case PropertyCSTS:
		return "CSTS"
	case PropertyNSSR:
		return "NSSR"
	case PropertyNSSD:
		return "NSSD"
	case PropertyCRTO:
		return "CRTO"
	}
	return fmt.Sprintf("property %#x", uint32(o))
}

// NSSRReset is the value that makes property NSSR reset the subsystem.
const NSSRReset uint32 = 0x4e564d65

// CAP is the property of controller capabilities.
type CAP uint64

// Command sets in CAP.CSS.
const (
	CSSNVM     uint8 = 1 << 0
	CSSMany    uint8 = 1 << 6 // one or more sets, see Identify CNS 1Ch
	CSSNoIOSet uint8 = 1 << 7
)

// CAPFields are the fields of CAP that a controller sets. Sizes are exponents, as on the wire.
type CAPFields struct {
	MQES   uint16 // largest queue, 0's based
	CQR    bool   // queues are contiguous: required over fabrics
	AMS    uint8
	TO     uint8 // longest time until CSTS.RDY, in units of 500 ms
	DSTRD  uint8
	NSSRS  bool
	CSS    uint8
	MPSMIN uint8 // page size is 1 << (12 + MPSMIN)
	MPSMAX uint8
	CRMS   uint8 // controller ready modes
}

// Fields decodes the property.
func (c CAP) Fields() CAPFields {
	return CAPFields{
		MQES: uint16(c), CQR: c>>16&1 != 0, AMS: uint8(bits(c, 17, 2)), TO: uint8(c >> 24),
		DSTRD: uint8(bits(c, 32, 4)), NSSRS: c>>36&1 != 0, CSS: uint8(c >> 37),
		MPSMIN: uint8(bits(c, 48, 4)), MPSMAX: uint8(bits(c, 52, 4)), CRMS: uint8(bits(c, 59, 2)),
	}
}

// CAP encodes the fields.
func (f CAPFields) CAP() CAP {
	return CAP(f.MQES) | CAP(flag(f.CQR, 16)) | CAP(f.AMS&3)<<17 | CAP(f.TO)<<24 |
		CAP(f.DSTRD&15)<<32 | CAP(flag(f.NSSRS, 0))<<36 | CAP(f.CSS)<<37 |
		CAP(f.MPSMIN&15)<<48 | CAP(f.MPSMAX&15)<<52 | CAP(f.CRMS&3)<<59
}

// CC is the controller configuration property.
type CC uint32

// Values of CC.CSS.
const (
	CCCSSNVM   uint8 = 0
	CCCSSAll   uint8 = 6 // all supported I/O command sets
	CCCSSAdmin uint8 = 7
)

// Shutdown is CC.SHN.
type Shutdown uint8

const (
	ShutdownNone   Shutdown = 0
	ShutdownNormal Shutdown = 1
	ShutdownAbrupt Shutdown = 2
)

func (c CC) Enable() bool       { return c&1 != 0 }
func (c CC) CSS() uint8         { return uint8(bits(c, 4, 3)) }
func (c CC) MPS() uint8         { return uint8(bits(c, 7, 4)) }
func (c CC) AMS() uint8         { return uint8(bits(c, 11, 3)) }
func (c CC) Shutdown() Shutdown { return Shutdown(bits(c, 14, 2)) }
func (c CC) IOSQES() uint8      { return uint8(bits(c, 16, 4)) }
func (c CC) IOCQES() uint8      { return uint8(bits(c, 20, 4)) }
func (c CC) CRIME() bool        { return c>>24&1 != 0 }

func (c CC) WithEnable(on bool) CC          { return with(c, 0, 1, CC(flag(on, 0))) }
func (c CC) WithCSS(v uint8) CC             { return with(c, 4, 3, CC(v)) }
func (c CC) WithMPS(v uint8) CC             { return with(c, 7, 4, CC(v)) }
func (c CC) WithAMS(v uint8) CC             { return with(c, 11, 3, CC(v)) }
func (c CC) WithShutdown(v Shutdown) CC     { return with(c, 14, 2, CC(v)) }
func (c CC) WithEntrySizes(sq, cq uint8) CC { return with(with(c, 16, 4, CC(sq)), 20, 4, CC(cq)) }

// CSTS is the controller status property.
type CSTS uint32

const (
	CSTSReady     CSTS = 1 << 0
	CSTSFatal     CSTS = 1 << 1
	CSTSNSSRO     CSTS = 1 << 4 // a subsystem reset occurred
	CSTSPaused    CSTS = 1 << 5
	shutdownShift      = 2
)

// ShutdownStatus is CSTS.SHST.
type ShutdownStatus uint8

const (
	ShutdownNotRequested ShutdownStatus = 0
	ShutdownOccurring    ShutdownStatus = 1
	ShutdownComplete     ShutdownStatus = 2
)

func (c CSTS) Ready() bool              { return c&CSTSReady != 0 }
func (c CSTS) Fatal() bool              { return c&CSTSFatal != 0 }
func (c CSTS) Shutdown() ShutdownStatus { return ShutdownStatus(bits(c, shutdownShift, 2)) }

// WithShutdown returns c with SHST set.
func (c CSTS) WithShutdown(s ShutdownStatus) CSTS { return with(c, shutdownShift, 2, CSTS(s)) }

// CRTO is the property of controller ready timeouts, in units of 500 ms.
type CRTO uint32

// MakeCRTO encodes the timeouts.
func MakeCRTO(withMedia, independent uint16) CRTO {
	return CRTO(withMedia) | CRTO(independent)<<16
}

func (c CRTO) WithMedia() uint16   { return uint16(c) }
func (c CRTO) Independent() uint16 { return uint16(c >> 16) }
