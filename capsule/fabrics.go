package capsule

// FabricsType returns the FCTYPE of a command with [OpcodeFabrics].
func (c *Command) FabricsType() FabricsType { return FabricsType(c.NSID) }

// FabricsCommand returns a fabrics command without data.
func FabricsCommand(t FabricsType) Command {
	return Command{Opcode: OpcodeFabrics, Flags: FlagsSGL, NSID: NSID(t), SGL: KeyedSGL(0, 0, 0, false)}
}

// Attributes of a Connect command (CATTR).
const (
	ConnectPriorityMask         uint8 = 3
	ConnectNoFlowControl        uint8 = 1 << 2 // the host requests to disable SQ flow control
	ConnectIndividualIOQDeletes uint8 = 1 << 3
)

// Connect are the fields of a Connect command (NVMe base 2.0, 6.3).
type Connect struct {
	RECFMT uint16
	QID    QID
	SQSIZE uint16 // 0's based
	CATTR  uint8
	KATO   uint32 // keep alive timeout in milliseconds; 0 disables it
}

// Offsets of fields for the Invalid Parameter Offset of a failed Connect: in the command with [InvalidInCommand], in
// the data with [InvalidInData].
const (
	ConnectOffsetRECFMT  uint16 = 40
	ConnectOffsetQID     uint16 = 42
	ConnectOffsetSQSIZE  uint16 = 44
	ConnectOffsetCATTR   uint16 = 46
	ConnectOffsetKATO    uint16 = 48
	ConnectOffsetHostID  uint16 = 0
	ConnectOffsetCNTLID  uint16 = 16
	ConnectOffsetSubNQN  uint16 = 256
	ConnectOffsetHostNQN uint16 = 512
)

// Connect decodes the fields of a Connect command.
func (c *Command) Connect() Connect {
	return Connect{
		RECFMT: uint16(c.CDW10), QID: QID(c.CDW10 >> 16),
		SQSIZE: uint16(c.CDW11), CATTR: uint8(c.CDW11 >> 16), KATO: c.CDW12,
	}
}

// Put stores the fields in a command.
func (f Connect) Put(c *Command) {
	c.CDW10 = uint32(f.RECFMT) | uint32(f.QID)<<16
	c.CDW11 = uint32(f.SQSIZE) | uint32(f.CATTR)<<16
	c.CDW12 = f.KATO
}

// ConnectResponse is the result of a successful Connect.
type ConnectResponse struct {
	CNTLID ControllerID
	ATR    bool // authentication transaction required
	ASCR   bool // authentication and secure channel required
}

// ParseConnectResponse decodes the result of a completion.
func ParseConnectResponse(result uint64) ConnectResponse {
	return ConnectResponse{ControllerID(result), result>>17&1 != 0, result>>18&1 != 0}
}

// Result encodes the result of the completion.
func (r ConnectResponse) Result() uint64 {
	return uint64(r.CNTLID) | uint64(flag(r.ATR, 17)|flag(r.ASCR, 18))
}

// InvalidParameter is the result of a Connect that failed with [StatusConnectInvalidParam]. It says where the invalid
// field starts.
type InvalidParameter struct {
	Offset uint16 // IPO, in bytes
	In     InvalidIn
}

// InvalidIn is the IATTR of an [InvalidParameter].
type InvalidIn uint8

const (
	InvalidInCommand InvalidIn = 0
	InvalidInData    InvalidIn = 1
)

// ParseInvalidParameter decodes the result of a completion.
func ParseInvalidParameter(result uint64) InvalidParameter {
	return InvalidParameter{uint16(result), InvalidIn(result >> 16 & 1)}
}

// Result encodes the result of the completion.
func (p InvalidParameter) Result() uint64 { return uint64(p.Offset) | uint64(p.In)<<16 }

// Property are the fields of Property Get and Property Set.
type Property struct {
	Size   int    // 4 or 8 bytes; 0 for any other value on the wire
	Offset uint32 // OFST; see [PropertyOffset]
	Value  uint64 // Set only
}

// Property decodes the fields of Property Get or Property Set.
func (c *Command) Property() Property {
	p := Property{Offset: c.CDW11, Value: uint64(c.CDW13)<<32 | uint64(c.CDW12)}
	switch c.CDW10 & 7 {
	case 0:
		p.Size = 4
	case 1:
		p.Size = 8
	}
	return p
}

// Put stores the fields in a command.
func (p Property) Put(c *Command) {
	c.CDW10 = flag(p.Size == 8, 0)
	c.CDW11 = p.Offset
	c.CDW12, c.CDW13 = uint32(p.Value), uint32(p.Value>>32)
}

// DisconnectRECFMT returns the record format of a Disconnect command; 0 is valid.
func (c *Command) DisconnectRECFMT() uint16 { return uint16(c.CDW10) }

// SecurityProtocol of in-band authentication (SECP, with SPSP0 and SPSP1 1).
const SecurityProtocol uint8 = 0xe9

// Auth are the fields of Authentication Send and Authentication Receive.
type Auth struct {
	SPSP0, SPSP1, SECP uint8
	Length             uint32 // TL or AL in bytes
}

// Auth decodes the fields of an authentication command.
func (c *Command) Auth() Auth {
	return Auth{uint8(c.CDW10 >> 8), uint8(c.CDW10 >> 16), uint8(c.CDW10 >> 24), c.CDW11}
}

// Put stores the fields in a command.
func (a Auth) Put(c *Command) {
	c.CDW10 = uint32(a.SPSP0)<<8 | uint32(a.SPSP1)<<16 | uint32(a.SECP)<<24
	c.CDW11 = a.Length
}
