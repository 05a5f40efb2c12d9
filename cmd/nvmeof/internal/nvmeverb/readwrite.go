package nvmeverb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/terminal"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// transfer holds the flags of read, write and compare, with nvme-cli's names.
type transfer struct {
	verb
	blockFlags
	name            string
	dataSize        string
	data            string
	latency         bool
	show, dry, sure bool
}

func newRead(to Connection) *cobra.Command {
	return newTransfer(to, &transfer{name: "read"}, "Read blocks into a file or to standard output")
}

func newWrite(to Connection) *cobra.Command {
	return newTransfer(to, &transfer{name: "write"}, "Write blocks from a file or standard input")
}

func newCompare(to Connection) *cobra.Command {
	return newTransfer(to, &transfer{name: "compare"}, "Compare blocks with a file or standard input")
}

func newTransfer(to Connection, t *transfer, short string) *cobra.Command {
	t.Connection = to
	cmd := newVerb(t.name, short, 0, &t.verb, t.addFlags, func(ctx context.Context, c *call) error {
		size, err := t.size()
		if err == nil {
			err = t.check()
		}
		if err != nil {
			return err
		}
		return t.run(ctx, c, size)
	})
	cmd.Use = t.name + " -t rdma -a ADDR -n NQN --start-block N -c COUNT -z BYTES [-d FILE]"
	cmd.Example = "  nvmeof " + t.name + " -t rdma -a 192.0.2.1 -n NQN --namespace-id 1 --start-block 0 --block-count 7 --data-size 4096 --data FILE"
	return cmd
}

func (t *transfer) addFlags(flags *pflag.FlagSet) {
	t.namespaceFlag(flags, 0, "identifier of desired namespace (default: the lowest)")
	t.blockFlags.add(flags)
	t.addDirective(flags)
	flags.StringVarP(&t.dataSize, "data-size", "z", "", "size of data in bytes")
	flags.StringVarP(&t.data, "data", "d", "", "data file")
	flags.Uint8VarP(&t.DSM, "dsm", "D", 0, "dataset management attributes (lower 8 bits)")
	flags.BoolVarP(&t.show, "show-command", "V", false, "show command before sending")
	flags.BoolVar(&t.dry, "dry-run", false, "show command instead of sending")
	flags.BoolVar(&t.latency, "latency", false, "output latency statistics")
	flags.BoolVar(&t.sure, "force", false, "accepted for compatibility with nvme-cli; no effect")
}

func (t *transfer) size() (int64, error) {
	if t.dataSize == "" {
		return 0, failure.Usagef("data size not provided")
	}
	n, err := nvmeof.ParseSize(t.dataSize)
	if err != nil {
		return 0, failure.Usagef("--data-size: %v", err)
	}
	if n > maxDataSize {
		return 0, failure.Usagef("--data-size %d: %d blocks of 4096 bytes at most", n, 1<<16)
	}
	return n, nil
}

// maxDataSize is the largest size that block-count can express.
const maxDataSize = 4096 << 16

func (t *transfer) run(ctx context.Context, c *call, size int64) error {
	ns, err := c.namespace(ctx)
	if err != nil {
		return err
	}
	length := (int64(t.count) + 1) * int64(ns.BlockSize())
	t.warnOfSize(c.warn, size, length, int64(ns.BlockSize()))
	data := make([]byte, length)
	if t.name != "read" {
		have, err := t.load(ctx, c.in, data[:min(size, length)])
		if err != nil {
			return err
		}
		if int64(have) < length && t.name == "write" {
			fmt.Fprintf(c.warn, "warning: the data has %d bytes, and %d are written: the rest becomes zeroes\n", have, length)
		}
	}
	if t.show || t.dry {
		cmd := t.command(t.opcode())
		cmd.NSID = ns.ID()
		if err := c.ReadWrite(&cmd); err != nil || t.dry {
			return err
		}
	}
	took, err := t.carryOut(ctx, c, ns, data)
	if t.latency {
		fmt.Fprintf(c.warn, " latency: %s: %d us\n", t.name, took.Microseconds())
	}
	if err == nil && t.name == "read" {
		err = t.save(c.W, data[:min(size, length)])
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.warn, "%s: Success\n", t.name)
	return nil
}

// warnOfSize warns if the data size differs from that of the block count, which is the one that is used.
func (t *transfer) warnOfSize(warn io.Writer, size, length, block int64) {
	switch {
	case size < length:
		fmt.Fprintf(warn, "Rounding data size to fit block count (%d bytes)\n", length)
	case size > length:
		moved := map[string]string{"read": "read", "write": "written", "compare": "compared"}[t.name]
		fmt.Fprintf(warn, "warning: only %d bytes of the --data-size %d are %s: --block-count %d is %d × %d bytes, since blocks count from 0",
			length, size, moved, t.count, int64(t.count)+1, block)
		if needed := (size - 1) / block; needed <= math.MaxUint16 {
			fmt.Fprintf(warn, "; --block-count %d moves all", needed)
		}
		fmt.Fprintln(warn)
	}
}

func (t *transfer) opcode() capsule.IOOpcode {
	return map[string]capsule.IOOpcode{"read": capsule.IORead, "write": capsule.IOWrite, "compare": capsule.IOCompare}[t.name]
}

// carryOut transfers all data in commands of the controller's maximum size, and shows the progress of a long transfer.
func (t *transfer) carryOut(ctx context.Context, c *call, ns *host.Namespace, data []byte) (took time.Duration, err error) {
	bar := terminal.NewProgress(c.warn, t.name, len(data))
	start := time.Now()
	step := max(ns.BlockSize(), c.MaxTransfer()&^(ns.BlockSize()-1))
	switch blocks := uint64(ns.Size() / int64(ns.BlockSize())); {
	case t.start >= blocks || uint64(t.count) >= blocks-t.start:
		// The last part exceeds the namespace. Send it first, so that the controller rejects it before any data is
		// written.
		last := (len(data) - 1) / step * step
		if err = t.part(ctx, ns, data[last:], last); err == nil {
			err = t.serially(ctx, ns, data[:last], step, bar)
		}
	case t.name == "compare" || t.special():
		err = t.serially(ctx, ns, data, step, bar)
	default:
		err = t.stream(ctx, c, ns, data, step, bar)
	}
	took = time.Since(start)
	bar.End()
	return took, err
}

// serially executes the commands one after the other.
func (t *transfer) serially(ctx context.Context, ns *host.Namespace, data []byte, step int, bar *terminal.Progress) error {
	for at := 0; at < len(data); at += step {
		part := data[at:min(at+step, len(data))]
		if err := t.part(ctx, ns, part, at); err != nil {
			return err
		}
		bar.Add(len(part))
	}
	return nil
}

// part executes the command for the data at an offset.
func (t *transfer) part(ctx context.Context, ns *host.Namespace, part []byte, at int) error {
	f := t.blockFlags
	skipped := uint64(at / ns.BlockSize())
	f.start, f.count = t.start+skipped, uint16(len(part)/ns.BlockSize()-1)
	f.tag += uint32(skipped)
	_, err := ns.Execute(ctx, f.command(t.opcode()), part)
	return err
}

// streamDepth is the number of commands that read and write have in flight.
const streamDepth = 16

// leaveTime is how long commands in flight are waited for after a signal.
const leaveTime = time.Second

// stream reads or writes with several commands in flight. When one fails, it waits for the others. After a signal it
// waits at most leaveTime, and then disconnects the controller.
func (t *transfer) stream(ctx context.Context, c *call, ns *host.Namespace, data []byte, step int, bar *terminal.Progress) (err error) {
	q, err := ns.OpenQueue(streamDepth, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	var results [streamDepth]backend.Result
	var stopped time.Time
	for at, flying := 0, 0; flying > 0 || at < len(data) && err == nil; {
		switch {
		case ctx.Err() == nil:
		case stopped.IsZero():
			stopped, err = time.Now(), cmp.Or(err, context.Cause(ctx))
		case time.Since(stopped) > leaveTime:
			return errors.Join(err, c.Disconnect(context.WithoutCancel(ctx)))
		}
		for ; at < len(data) && flying < streamDepth && err == nil; at, flying = at+step, flying+1 {
			part := data[at:min(at+step, len(data))]
			q.Submit([]backend.Request{t.request(ns, part, at)})
		}
		if e := q.Wait(); e != nil {
			return errors.Join(err, e)
		}
		for _, r := range results[:q.Poll(results[:])] {
			flying--
			bar.Add(int(r.Tag))
			if err == nil {
				err = r.Err
			}
		}
	}
	return err
}

// request returns the request for a part of the data. Its tag is the length of the part.
func (t *transfer) request(ns *host.Namespace, part []byte, at int) backend.Request {
	r := backend.Request{Tag: uint64(len(part)), Op: backend.OpRead, FUA: t.FUA, Length: int64(len(part)), Buf: part}
	r.Offset = int64(t.start)*int64(ns.BlockSize()) + int64(at)
	if t.name == "write" {
		r.Op = backend.OpWrite
	}
	return r
}

// load fills b from the data file, and returns the number of bytes read. As with nvme-cli, the rest stays zero.
func (t *transfer) load(ctx context.Context, in io.Reader, b []byte) (n int, err error) {
	n, err = namedfile.Fill(ctx, t.data, in, b)
	if n == 0 && err != nil {
		return 0, fmt.Errorf("no data to write: %w", err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return n, nil
	}
	return n, err
}

func (t *transfer) save(out io.Writer, b []byte) error {
	if t.data == "" {
		return writeAll(out, b)
	}
	f, err := os.OpenFile(t.data, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o664)
	if err != nil {
		return err
	}
	return errors.Join(writeAll(f, b), f.Close())
}
