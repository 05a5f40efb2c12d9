package nvmeverb

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
)

// logFlags holds the flags of nvme get-log.
type logFlags struct {
	id, csi, lsp, uuid uint8
	length, aen        uint32
	offset             uint64
	specific           uint16
	retain, index      bool
}

func newGetLog(to Connection) *cobra.Command {
	v := verb{Connection: to}
	var f logFlags
	cmd := newVerb("get-log", "Show a log page as bytes", canRaw, &v, func(flags *pflag.FlagSet) {
		v.namespaceFlag(flags, capsule.NSIDBroadcast, "desired namespace")
		f.add(flags)
	}, func(ctx context.Context, c *call) error { return f.run(ctx, c) })
	cmd.Example = "  nvmeof get-log -t rdma -a 192.0.2.1 -n NQN --log-id 2 --log-len 512"
	return cmd
}

func (f *logFlags) add(flags *pflag.FlagSet) {
	flags.Uint8VarP(&f.id, "log-id", "i", 0, "identifier of log to retrieve")
	flags.Uint32VarP(&f.length, "log-len", "l", 0, "how many bytes to retrieve")
	flags.Uint32Var(&f.aen, "aen", 0, "result of the aen, use to override log id")
	flags.Uint64VarP(&f.offset, "lpo", "L", 0, "log page offset: the location within a log page from where to start returning data")
	flags.Uint8Var(&f.lsp, "lsp", 0, "log specific field")
	flags.Uint16Var(&f.specific, "lsi", 0, "log specific identifier")
	flags.BoolVarP(&f.retain, "rae", "r", false, "retain an asynchronous event")
	flags.Uint8VarP(&f.uuid, "uuid-index", "U", 0, "UUID index")
	flags.Uint8VarP(&f.csi, "csi", "y", 0, "command set identifier")
	flags.BoolVarP(&f.index, "ot", "O", false, "offset type: an index")
}

// aenLength is how many bytes nvme-cli reads of the page that an event names.
const aenLength = 4096

func (f *logFlags) run(ctx context.Context, c *call) error {
	id, length := f.id, f.length
	if f.aen != 0 {
		id, length = uint8(f.aen>>16), aenLength
	}
	if length == 0 || length%4 != 0 {
		return failure.Usagef("non-zero or non-dw alignment log-len is required param: --log-len %d; it is a multiple of 4", length)
	}
	if length > maxLogLength {
		return failure.Usagef("--log-len %d: %d bytes at most", length, maxLogLength)
	}
	g := capsule.GetLogPage{LID: capsule.LID(id), LSP: f.lsp, RAE: f.retain, LSI: f.specific, LPO: f.offset, UUID: f.uuid, OT: f.index, CSI: capsule.CSI(f.csi)}
	return c.page(ctx, c.id(), g, int(length), func(c *call, b []byte) error { return c.GetLog(id, uint32(c.id()), b) })
}

// maxLogLength limits the memory that is allocated for a mistyped length.
const maxLogLength = 64 << 20
