package rdmatools

import (
	"io"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/perftest"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Limits and defaults, unless they are perftest's own.
const (
	maxIterations = 10_000_000
	maxSize       = 8 << 20
	measurePort   = 18515
	bandwidthSize = 65536
	latencySize   = 2
	maxReads      = 16
)

// A measurement corresponds to one of perftest's programs.
type measurement struct {
	name, aka string
	test      perftest.Test
	short     string
}

var measurements = []measurement{
	{"send-bw", "", perftest.Test{Verb: perftest.Send}, "Bandwidth of SEND"},
	{"send-lat", "lat", perftest.Test{Verb: perftest.Send, Latency: true}, "Latency of SEND"},
	{"write-bw", "", perftest.Test{Verb: perftest.Write}, "Bandwidth of RDMA WRITE"},
	{"write-lat", "", perftest.Test{Verb: perftest.Write, Latency: true}, "Latency of RDMA WRITE"},
	{"read-bw", "", perftest.Test{Verb: perftest.Read}, "Bandwidth of RDMA READ"},
	{"read-lat", "", perftest.Test{Verb: perftest.Read, Latency: true}, "Latency of RDMA READ"},
	{"atomic-bw", "", perftest.Test{Verb: perftest.FetchAdd}, "Rate of atomic operations"},
	{"atomic-lat", "", perftest.Test{Verb: perftest.FetchAdd, Latency: true}, "Latency of atomic operations"},
}

// A measure is one side of a measurement, with its options.
type measure struct {
	session
	test       perftest.Test
	server     netip.Addr // invalid: this is the server
	size, n    int
	sendDepth  int
	recvDepth  int
	reads      int
	tos        uint8
	atomic     string
	cm, noFreq bool

	out io.Writer
}

func newMeasure(m measurement, d Devices) *cobra.Command {
	t := &measure{session: session{Devices: d}, test: m.test}
	program := perftestName(m.name)
	cmd := &cobra.Command{
		Use:   m.name + " [SERVER]",
		Short: m.short + ", as " + program,
		Long: m.short + ` between a server and a client.
The server is started without an address. The other end is the same command or
perftest's ` + program + ` -R, with the same options. The names of options, the table and the keys of -o json are perftest's.`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			t.out = cmd.OutOrStdout()
			return t.run(cmd, args)
		},
	}
	if m.aka != "" {
		cmd.Aliases = []string{m.aka}
	}
	t.addMeasureFlags(cmd)
	return cmd
}

// perftestName returns the program that corresponds to a measurement.
func perftestName(name string) string {
	b := []byte("ib_" + name)
	for i, c := range b {
		if c == '-' {
			b[i] = '_'
		}
	}
	return string(b)
}

func (t *measure) addMeasureFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVarP(&t.n, "iters", "n", 1000, "number of messages")
	if t.test.Verb.Atomic() {
		t.size = perftest.AtomicSize
		f.StringVarP(&t.atomic, "atomic_type", "A", "FETCH_AND_ADD", "FETCH_AND_ADD or CMP_AND_SWAP")
		_ = cmd.RegisterFlagCompletionFunc("atomic_type", cobra.FixedCompletions([]string{"FETCH_AND_ADD", "CMP_AND_SWAP"}, cobra.ShellCompDirectiveNoFileComp))
	} else {
		size := bandwidthSize
		if t.test.Latency {
			size = latencySize
		}
		f.IntVarP(&t.size, "size", "s", size, "size of a message in bytes, up to 8388608")
	}
	t.sendDepth, t.recvDepth, t.reads = 1, 1, maxReads
	if !t.test.Latency {
		f.IntVarP(&t.sendDepth, "tx-depth", "t", 128, "number of messages that the client has in flight")
	}
	if t.test.Verb == perftest.Send {
		f.IntVarP(&t.recvDepth, "rx-depth", "r", 512, "number of receives posted")
	}
	if t.test.Verb == perftest.Read || t.test.Verb.Atomic() {
		f.IntVar(&t.reads, "outs", maxReads, "number of RDMA READs and atomics in flight, up to 16")
	}
	f.Uint8VarP(&t.tos, "tos", "T", 0, "type of service, set by the client")
	f.StringVar(&t.own, "host-traddr", "", ownHelp)
	f.StringVar(&t.own, "bind_source_ip", "", "the same as --host-traddr")
	f.BoolVarP(&t.cm, "rdma_cm", "R", true, "connect with the RDMA CM; always on")
	f.BoolVarP(&t.noFreq, "CPU-freq", "F", true, "ignore the processor's frequency; always on")
	_ = f.MarkHidden("CPU-freq")
	t.addFlags(cmd, measurePort)
}

func (t *measure) run(cmd *cobra.Command, args []string) error {
	if err := t.checkMeasure(); err != nil {
		return err
	}
	ctx, say := cmd.Context(), cmd.ErrOrStderr()
	if len(args) == 0 {
		return t.serve(ctx, say, func(e *endpoint, l rdmatransport.Listener) error {
			return t.meet(e, &server{e, l})
		})
	}
	var err error
	if t.server, err = t.Address(ctx, args[0]); err != nil {
		return err
	}
	return t.client(ctx, say, t.server, func(e *endpoint) error {
		return t.meet(e, &client{e, call{to: netip.AddrPortFrom(t.server, t.port), reads: t.reads, tos: t.tos}})
	})
}

func (t *measure) checkMeasure() error {
	if t.test.Verb.Atomic() {
		verb, ok := map[string]perftest.Verb{"FETCH_AND_ADD": perftest.FetchAdd, "CMP_AND_SWAP": perftest.CompareSwap}[t.atomic]
		if !ok {
			return failure.Usagef("--atomic_type %s: want FETCH_AND_ADD or CMP_AND_SWAP", t.atomic)
		}
		t.test.Verb = verb
	}
	switch {
	case !t.cm:
		return failure.Usagef("--rdma_cm: without the RDMA CM there is no connection")
	case t.size < 1 || t.size > maxSize:
		return failure.Usagef("--size %d: 1 to %d", t.size, maxSize)
	case t.n < perftest.MinIterations || t.n > maxIterations:
		return failure.Usagef("--iters %d: %d to %d", t.n, perftest.MinIterations, maxIterations)
	case t.sendDepth < 1 || t.recvDepth < 1:
		return failure.Usagef("--tx-depth %d, --rx-depth %d: want at least 1", t.sendDepth, t.recvDepth)
	case t.reads < 1 || t.reads > maxReads:
		return failure.Usagef("--outs %d: 1 to %d", t.reads, maxReads)
	case t.events && t.test.Latency && t.test.Verb == perftest.Write:
		return failure.Usagef("--events: an RDMA WRITE creates no completion at the receiver, so there is no event to wait for")
	}
	return t.check()
}
