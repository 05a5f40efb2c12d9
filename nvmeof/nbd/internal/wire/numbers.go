package wire

import "fmt"

// HandshakeFlags are the flags that server and client exchange in the handshake ["Flag fields"].
type HandshakeFlags uint32

const (
	FixedNewstyle HandshakeFlags = 1 << iota // unknown options are answered
	NoZeroes                                 // no padding after EXPORT_NAME
)

// Option is the type of an option in the handshake ["Option types"].
type Option uint32

const (
	OptExportName      Option = 1
	OptAbort           Option = 2
	OptList            Option = 3
	OptInfo            Option = 6
	OptGo              Option = 7
	OptStructuredReply Option = 8
	OptListMetaContext Option = 9
	OptSetMetaContext  Option = 10
)

// OptionReply is the type of a reply to an option ["Option reply types"].
type OptionReply uint32

const (
	RepAck         OptionReply = 1
	RepServer      OptionReply = 2
	RepInfo        OptionReply = 3
	RepMetaContext OptionReply = 4

	repError       OptionReply = 1 << 31
	RepErrUnsup                = repError + 1
	RepErrInvalid              = repError + 3
	RepErrUnknown              = repError + 6
	RepErrShutdown             = repError + 7
	RepErrTooBig               = repError + 9
)

// InfoType is a type of information about an export in replies to INFO and GO ["Information types"].
type InfoType uint16

const (
	InfoExport      InfoType = 0
	InfoName        InfoType = 1
	InfoDescription InfoType = 2
	InfoBlockSize   InfoType = 3
)

// TransmissionFlags are the capabilities of an export ["Transmission flags"].
type TransmissionFlags uint16

const (
	HasFlags        TransmissionFlags = 1 << 0
	ReadOnly        TransmissionFlags = 1 << 1
	SendFlush       TransmissionFlags = 1 << 2
	SendFUA         TransmissionFlags = 1 << 3
	SendTrim        TransmissionFlags = 1 << 5
	SendWriteZeroes TransmissionFlags = 1 << 6
	SendDF          TransmissionFlags = 1 << 7
	CanMultiConn    TransmissionFlags = 1 << 8
	SendFastZero    TransmissionFlags = 1 << 11
)

// Command is the type of a request ["Request types"].
type Command uint16

const (
	CmdRead        Command = 0
	CmdWrite       Command = 1
	CmdDisc        Command = 2
	CmdFlush       Command = 3
	CmdTrim        Command = 4
	CmdWriteZeroes Command = 6
	CmdBlockStatus Command = 7
)

// CommandFlags modify a command ["Command flags"].
type CommandFlags uint16

const (
	FlagFUA      CommandFlags = 1 << 0 // the data is durable when the reply is sent
	FlagNoHole   CommandFlags = 1 << 1 // of CmdWriteZeroes: keep the storage
	FlagDF       CommandFlags = 1 << 2 // of CmdRead: do not fragment the reply
	FlagReqOne   CommandFlags = 1 << 3 // of CmdBlockStatus: one extent, no longer than requested
	FlagFastZero CommandFlags = 1 << 4 // of CmdWriteZeroes: fail rather than be slow
)

// commands has the supported commands, with the flags that each allows. FUA is ignored where it has no meaning.
var commands = [...]struct {
	name  string
	flags CommandFlags
}{
	CmdRead:        {"READ", FlagFUA | FlagDF},
	CmdWrite:       {"WRITE", FlagFUA},
	CmdDisc:        {"DISC", FlagFUA},
	CmdFlush:       {"FLUSH", FlagFUA},
	CmdTrim:        {"TRIM", FlagFUA},
	CmdWriteZeroes: {"WRITE_ZEROES", FlagFUA | FlagNoHole | FlagFastZero},
	CmdBlockStatus: {"BLOCK_STATUS", FlagFUA | FlagReqOne},
}

func (c Command) String() string {
	if c.known() {
		return commands[c].name
	}
	return fmt.Sprintf("command %d", uint16(c))
}

func (c Command) known() bool { return int(c) < len(commands) && commands[c].name != "" }

// Errno is an error number in a reply ["Error values"].
type Errno uint32

const (
	OK        Errno = 0
	EPERM     Errno = 1
	EIO       Errno = 5
	EINVAL    Errno = 22
	ENOSPC    Errno = 28
	EOVERFLOW Errno = 75
	ENOTSUP   Errno = 95
	ESHUTDOWN Errno = 108
)

func (e Errno) String() string {
	switch e {
	case OK:
		return "no error"
	case EPERM:
		return "EPERM"
	case EIO:
		return "EIO"
	case EINVAL:
		return "EINVAL"
	case ENOSPC:
		return "ENOSPC"
	case EOVERFLOW:
		return "EOVERFLOW"
	case ENOTSUP:
		return "ENOTSUP"
	case ESHUTDOWN:
		return "ESHUTDOWN"
	}
	return fmt.Sprintf("error %d", uint32(e))
}

// Magic numbers at the beginning of messages.
const (
	magicGreeting        = 0x4e42444d41474943 // "NBDMAGIC"
	magicOption          = 0x49484156454f5054 // "IHAVEOPT"
	magicOptionReply     = 0x0003e889045565a9
	magicRequest         = 0x25609513
	magicSimpleReply     = 0x67446698
	magicStructuredReply = 0x668e33ef
)
