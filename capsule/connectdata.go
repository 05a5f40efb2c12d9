package capsule

// ConnectDataSize is the length of a Connect command's data in bytes.
const ConnectDataSize = 1024

// HostID is a host identifier: a UUID with its bytes in the order of the text form.
type HostID [16]byte

// ConnectData is the data of a Connect command (NVMe base 2.0, 6.3).
type ConnectData struct {
	HostID  HostID
	CNTLID  ControllerID
	SubNQN  NQNField
	HostNQN NQNField
}

func (d *ConnectData) fields(l layout) {
	l.bytes(0, d.HostID[:])
	u16(l, 16, &d.CNTLID)
	l.bytes(256, d.SubNQN[:])
	l.bytes(512, d.HostNQN[:])
}

// DecodeConnectData decodes the 1024 bytes at the start of b.
func DecodeConnectData(b []byte) (d ConnectData, err error) {
	l, err := decoder(b, ConnectDataSize)
	if err == nil {
		d.fields(l)
	}
	return d, err
}

// Encode fills the first 1024 bytes of b.
func (d *ConnectData) Encode(b []byte) { d.fields(encoder(b, ConnectDataSize)) }
