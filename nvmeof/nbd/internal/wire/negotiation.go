package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Catalog is what the negotiation asks about exports.
type Catalog interface {
	// Names are those of all exports.
	Names() []string
	// Find looks at an export; "" is the default one.
	Find(name string) (Export, bool)
	// Open is called for the export that a client takes, and looks at it again: another one
	// may have the name by now. An error, whose text the client gets, refuses it.
	Open(name string) (Export, error)
}

// A Negotiation is the handshake with one client, up to the transmission phase
// ["Fixed newstyle negotiation"].
type Negotiation struct {
	catalog Catalog
	step    step
	flags   HandshakeFlags
	skip    int // bytes of an option that is too long
	options int // so far

	// What was agreed on, once State is Agreed.
	Export     Export
	Structured bool // replies to reads are structured
	BlockSize  bool // the client asked for the block sizes, and keeps to them
	Allocation bool // it selected the context base:allocation for the export

	selected *string // the export for which it did; nil: for none
}

// State is how far a negotiation is.
type State uint8

const (
	Talking State = iota
	Agreed        // on an export: requests follow
	Ended         // by the client, in good order
)

type step uint8

const (
	stepFlags step = iota // those of the client are expected
	stepOptions
	stepAgreed
	stepEnded
)

// Limits of a handshake. Names have 4096 bytes at most ["String values"].
const (
	maxName    = 4096
	maxOption  = maxName + 4 + 2 + 2*64 // INFO and GO
	maxSkip    = 1 << 20
	maxOptions = 256

	optionHead = 16
)

// NewNegotiation begins one.
func NewNegotiation(c Catalog) *Negotiation { return &Negotiation{catalog: c} }

// Greeting appends what the server sends first.
func (n *Negotiation) Greeting(out []byte) []byte {
	out = binary.BigEndian.AppendUint64(out, magicGreeting)
	out = binary.BigEndian.AppendUint64(out, magicOption)
	return binary.BigEndian.AppendUint16(out, uint16(FixedNewstyle|NoZeroes))
}

// State is how far it is.
func (n *Negotiation) State() State {
	switch n.step {
	case stepAgreed:
		return Agreed
	case stepEnded:
		return Ended
	}
	return Talking
}

// Feed takes bytes of the client and appends what to answer. It returns how many
// it used: what is left over is the beginning of something, or belongs to the next
// phase. After an error, which says what is wrong with the client, the connection
// is of no use, but out may still be sent.
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

// take uses one message, or nothing if it is not all there.
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

// exportName has no way to refuse but to disconnect ["NBD_OPT_EXPORT_NAME"].
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
		// The size of blocks is worth telling to those too who do not promise to keep it.
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

// parseInfo reads the data of INFO and GO: a name, and what is to be told.
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
