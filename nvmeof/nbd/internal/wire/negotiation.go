package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Catalog provides the exports to a negotiation.
type Catalog interface {
	// Names returns the names of all exports.
	Names() []string
	// Find returns an export; "" is the default one.
	Find(name string) (Export, bool)
	// Open is called for the export that a client has chosen, and returns its present properties, since the name may
	// belong to another export by now. If it returns an error, the choice fails with its text.
	Open(name string) (Export, error)
}

// A Negotiation is the handshake with one client, up to the transmission phase ["Fixed newstyle negotiation"].
type Negotiation struct {
	catalog Catalog
	step    step
	flags   HandshakeFlags
	skip    int // bytes of an overlong option still to be skipped
	options int // number of options so far

	// The result, once State is Agreed.
	Export     Export
	Structured bool // replies are structured where required
	BlockSize  bool // the client has asked for the block sizes, and observes them
	Allocation bool // the client has selected the context base:allocation for the export

	selected *string // the export for which base:allocation was selected; nil: none
}

// State is the state of a negotiation.
type State uint8

const (
	Talking State = iota
	Agreed        // on an export: requests follow
	Ended         // by the client, regularly
)

type step uint8

const (
	stepFlags step = iota // waiting for the client's flags
	stepOptions
	stepAgreed
	stepEnded
)

// Limits of a handshake. Names have at most 4096 bytes ["String values"].
const (
	maxName    = 4096
	maxOption  = maxName + 4 + 2 + 2*64 // for INFO and GO
	maxSkip    = 1 << 20
	maxOptions = 256

	optionHead = 16
)

// NewNegotiation returns a negotiation at its start.
func NewNegotiation(c Catalog) *Negotiation { return &Negotiation{catalog: c} }

// Greeting appends the first message of the server.
func (n *Negotiation) Greeting(out []byte) []byte {
	out = binary.BigEndian.AppendUint64(out, magicGreeting)
	out = binary.BigEndian.AppendUint64(out, magicOption)
	return binary.BigEndian.AppendUint16(out, uint16(FixedNewstyle|NoZeroes))
}

// State returns the state of the negotiation.
func (n *Negotiation) State() State {
	switch n.step {
	case stepAgreed:
		return Agreed
	case stepEnded:
		return Ended
	}
	return Talking
}

// Feed handles bytes of the client and appends the answer to out. It returns how many bytes it used: the rest is an
// incomplete message, or belongs to the next phase. The error says what the client did wrong; then the connection must
// be closed, but out may still be sent.
func (n *Negotiation) Feed(in, out []byte) (used int, _ []byte, err error) {
	for n.State() == Talking && err == nil {
		var took int
		if took, out, err = n.take(in[used:], out); took == 0 {
			break
		}
		used += took
	}
	return used, out, err
}

// take handles one message, or returns 0 if it is incomplete.
func (n *Negotiation) take(in, out []byte) (int, []byte, error) {
	if n.skip > 0 {
		took := min(n.skip, len(in))
		n.skip -= took
		return took, out, nil
	}
	if n.step == stepFlags {
		if len(in) < 4 {
			return 0, out, nil
		}
		n.flags = HandshakeFlags(binary.BigEndian.Uint32(in))
		n.step = stepOptions
		if unknown := n.flags &^ (FixedNewstyle | NoZeroes); unknown != 0 {
			return 4, out, fmt.Errorf("unknown handshake flags %#x", uint32(unknown))
		}
		return 4, out, nil
	}
	if len(in) < optionHead {
		return 0, out, nil
	}
	if binary.BigEndian.Uint64(in) != magicOption {
		return 0, out, ErrMagic
	}
	option, length := Option(binary.BigEndian.Uint32(in[8:])), binary.BigEndian.Uint32(in[12:])
	if length > maxOption {
		return n.refuseLong(option, length, out)
	}
	if len(in) < optionHead+int(length) {
		return 0, out, nil
	}
	if n.options++; n.options > maxOptions {
		return 0, out, fmt.Errorf("more than %d options", maxOptions)
	}
	out, err := n.answer(option, in[optionHead:][:length], out)
	return optionHead + int(length), out, err
}

func (n *Negotiation) refuseLong(option Option, length uint32, out []byte) (int, []byte, error) {
	if length > maxSkip || option == OptExportName {
		return 0, out, fmt.Errorf("option %d has %d bytes", option, length)
	}
	if n.options++; n.options > maxOptions {
		return 0, out, fmt.Errorf("more than %d options", maxOptions)
	}
	n.skip = int(length)
	return optionHead, appendText(out, option, RepErrTooBig, "option is too long"), nil
}

func (n *Negotiation) answer(option Option, data, out []byte) ([]byte, error) {
	switch option {
	case OptExportName:
		return n.exportName(string(data), out)
	case OptAbort:
		n.step = stepEnded
		return appendOptionReply(out, option, RepAck, nil), nil
	case OptList:
		return n.list(data, out), nil
	case OptInfo, OptGo:
		return n.info(option, data, out), nil
	case OptStructuredReply:
		if len(data) > 0 {
			return appendText(out, option, RepErrInvalid, "STRUCTURED_REPLY has no data"), nil
		}
		n.Structured = true
		return appendOptionReply(out, option, RepAck, nil), nil
	case OptListMetaContext, OptSetMetaContext:
		return n.contexts(option, data, out), nil
	}
	return appendText(out, option, RepErrUnsup, "option is not supported"), nil
}

// exportName cannot refuse except by disconnecting ["NBD_OPT_EXPORT_NAME"].
func (n *Negotiation) exportName(name string, out []byte) ([]byte, error) {
	if _, ok := n.catalog.Find(name); !ok {
		return out, fmt.Errorf("no export %q", name)
	}
	e, err := n.catalog.Open(name)
	if err != nil {
		return out, err
	}
	n.agree(e, false)
	out = binary.BigEndian.AppendUint64(out, e.Size)
	out = binary.BigEndian.AppendUint16(out, uint16(e.Flags))
	if n.flags&NoZeroes == 0 {
		out = append(out, make([]byte, 124)...)
	}
	return out, nil
}

func (n *Negotiation) agree(e Export, blockSize bool) {
	n.Export, n.BlockSize, n.step = e, blockSize, stepAgreed
	n.Allocation = n.selected != nil && *n.selected == e.Name
}

func (n *Negotiation) list(data, out []byte) []byte {
	if len(data) > 0 {
		return appendText(out, OptList, RepErrInvalid, "LIST has no data")
	}
	for _, name := range n.catalog.Names() {
		entry := binary.BigEndian.AppendUint32(nil, uint32(len(name)))
		out = appendOptionReply(out, OptList, RepServer, append(entry, name...))
	}
	return appendOptionReply(out, OptList, RepAck, nil)
}

func (n *Negotiation) info(option Option, data, out []byte) []byte {
	name, wanted, err := parseInfo(data)
	if err != nil {
		return appendText(out, option, RepErrInvalid, err.Error())
	}
	e, ok := n.catalog.Find(name)
	if !ok {
		return appendText(out, option, RepErrUnknown, "no such export")
	}
	if option == OptGo {
		if e, err = n.catalog.Open(name); err != nil {
			return appendText(out, option, RepErrShutdown, err.Error())
		}
		n.agree(e, wanted.has(InfoBlockSize))
	}
	for t := InfoExport; t <= InfoBlockSize; t++ {
		// The block sizes are also useful for clients that do not promise to observe them.
		if t == InfoExport || t == InfoBlockSize || wanted.has(t) {
			out = appendOptionReply(out, option, RepInfo, e.appendInfo(nil, t))
		}
	}
	return appendOptionReply(out, option, RepAck, nil)
}

// infoSet has a bit for each type.
type infoSet uint8

func (s infoSet) has(t InfoType) bool { return s&(1<<t) != 0 }

var errInfo = errors.New("lengths in the option contradict each other")

// parseInfo decodes the data of INFO and GO: a name, and the information that is requested.
func parseInfo(b []byte) (name string, wanted infoSet, err error) {
	if len(b) < 6 {
		return "", 0, errInfo
	}
	length := binary.BigEndian.Uint32(b)
	if length > maxName || int(length) > len(b)-6 {
		return "", 0, errInfo
	}
	name, b = string(b[4:][:length]), b[4+length:]
	count := int(binary.BigEndian.Uint16(b))
	if len(b) != 2+2*count {
		return "", 0, errInfo
	}
	for i := range count {
		if t := InfoType(binary.BigEndian.Uint16(b[2+2*i:])); t <= InfoBlockSize {
			wanted |= 1 << t
		}
	}
	return name, wanted, nil
}

func (e *Export) appendInfo(b []byte, t InfoType) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(t))
	switch t {
	case InfoExport:
		b = binary.BigEndian.AppendUint64(b, e.Size)
		b = binary.BigEndian.AppendUint16(b, uint16(e.Flags))
	case InfoName:
		b = append(b, e.Name...)
	case InfoDescription:
		b = append(b, e.Description...)
	case InfoBlockSize:
		b = binary.BigEndian.AppendUint32(b, e.MinBlock)
		b = binary.BigEndian.AppendUint32(b, e.PreferredBlock)
		b = binary.BigEndian.AppendUint32(b, e.MaxBlock)
	}
	return b
}

func appendOptionReply(b []byte, o Option, r OptionReply, data []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, magicOptionReply)
	b = binary.BigEndian.AppendUint32(b, uint32(o))
	b = binary.BigEndian.AppendUint32(b, uint32(r))
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

func appendText(b []byte, o Option, r OptionReply, text string) []byte {
	return appendOptionReply(b, o, r, []byte(text))
}
