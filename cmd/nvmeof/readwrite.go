package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// transfer are the flags of read, write and compare, with nvme-cli's names.
type transfer struct {
	connection
	name       string
	nsid       uint32
	startBlock uint64
	blockCount uint16 // 0's based
	dataSize   string
	data       string
	fua        bool
	latency    bool
}

func newRead() *cobra.Command {
	return newTransfer(&transfer{name: "read"}, "Read blocks into a file or to standard output, as nvme read")
}

func newWrite() *cobra.Command {
	return newTransfer(&transfer{name: "write"}, "Write blocks from a file or standard input, as nvme write")
}

func newCompare() *cobra.Command {
	return newTransfer(&transfer{name: "compare"}, "Compare blocks with a file or standard input, as nvme compare")
}

func newTransfer(t *transfer, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     t.name + " -t rdma -a ADDR -n NQN --start-block N --block-count N --data-size BYTES [--data FILE]",
		Short:   short,
		Example: "  nvmeof " + t.name + " -t rdma -a 192.0.2.1 -n NQN --namespace-id 1 --start-block 0 --block-count 7 --data-size 4096 --data FILE",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			size, err := t.size()
			if err != nil {
				return err
			}
			return t.connected(cmd, func(ctx context.Context, c *host.Controller) error { return t.run(ctx, cmd, c, size) })
		},
	}
	t.addFlags(cmd)
	addNamespaceFlag(cmd, &t.nsid)
	flags := cmd.Flags()
	flags.Uint64Var(&t.startBlock, "start-block", 0, "64-bit addr of first block to access")
	flags.Uint16Var(&t.blockCount, "block-count", 0, "number of blocks (zeroes based) to access")
	flags.StringVarP(&t.dataSize, "data-size", "z", "", "size of data in bytes")
	flags.StringVarP(&t.data, "data", "d", "", "data file")
	flags.BoolVar(&t.fua, "force-unit-access", false, "force device to commit data before command completes")
	flags.BoolVar(&t.latency, "latency", false, "output latency statistics")
	return cmd
}

func (t *transfer) size() (int64, error) {
	if t.dataSize == "" {
		return 0, usage("data size not provided")
	}
	n, err := parseSize(t.dataSize)
	if err != nil {
		return 0, usage("--data-size: %v", err)
	}
	if n > maxDataSize {
		return 0, usage("--data-size %d: %d blocks of 4096 bytes at most", n, 1<<16)
	}
	return n, nil
}

// maxDataSize is what block-count can say.
const maxDataSize = 4096 << 16

func (t *transfer) run(ctx context.Context, cmd *cobra.Command, c *host.Controller, size int64) error {
	id, err := chooseNamespace(ctx, c, t.nsid)
	if err != nil {
		return err
	}
	ns, err := c.Namespace(ctx, id)
	if err != nil {
		return err
	}
	length := (int64(t.blockCount) + 1) * int64(ns.BlockSize())
	if last := uint64(ns.Size() / int64(ns.BlockSize())); t.startBlock >= last || uint64(t.blockCount) >= last-t.startBlock {
		return fmt.Errorf("blocks %d to %d: %w of %d blocks", t.startBlock, t.startBlock+uint64(t.blockCount), host.ErrOutOfRange, last)
	}
	if size < length {
		fmt.Fprintf(cmd.ErrOrStderr(), "Rounding data size to fit block count (%d bytes)\n", length)
	}
	data := make([]byte, length)
	if t.name != "read" {
		if err := t.load(cmd.InOrStdin(), data[:min(size, length)]); err != nil {
			return err
		}
	}
	took, err := t.carryOut(ctx, cmd, c, ns, data)
	if t.latency {
		fmt.Fprintf(cmd.ErrOrStderr(), " latency: %s: %d us\n", t.name, took.Microseconds())
	}
	if err == nil && t.name == "read" {
		err = t.save(cmd.OutOrStdout(), data[:min(size, length)])
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: Success\n", t.name)
	return nil
}

// carryOut moves all of the data, in commands as large as the controller takes, and
// shows how far it is where that takes a while.
func (t *transfer) carryOut(ctx context.Context, cmd *cobra.Command, c *host.Controller, ns *host.Namespace, data []byte) (took time.Duration, err error) {
	bar := newProgress(cmd.ErrOrStderr(), t.name, len(data))
	start := time.Now()
	step := max(ns.BlockSize(), c.MaxTransfer()&^(ns.BlockSize()-1))
	if t.name == "compare" {
		err = t.compare(ctx, ns, data, step, bar)
	} else {
		err = t.stream(ns, data, step, bar)
	}
	took = time.Since(start)
	bar.end()
	return took, err
}

// compare has the controller compare, one command after the other.
func (t *transfer) compare(ctx context.Context, ns *host.Namespace, data []byte, step int, bar *progress) error {
	for at := 0; at < len(data); at += step {
		part := data[at:min(at+step, len(data))]
		cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IOCompare)}
		capsule.ReadWrite{SLBA: capsule.LBA(t.startBlock + uint64(at/ns.BlockSize())), Blocks: uint32(len(part) / ns.BlockSize()), FUA: t.fua}.Put(&cmd)
		if _, err := ns.Execute(ctx, cmd, part); err != nil {
			return err
		}
		bar.add(len(part))
	}
	return nil
}

// streamDepth is how many commands read and write have on their way.
const streamDepth = 16

// stream reads or writes with several commands on their way. What is on its way when
// one fails is waited for.
func (t *transfer) stream(ns *host.Namespace, data []byte, step int, bar *progress) (err error) {
	q, err := ns.OpenQueue(streamDepth, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	var results [streamDepth]backend.Result
	for at, flying := 0, 0; flying > 0 || at < len(data) && err == nil; {
		for ; at < len(data) && flying < streamDepth && err == nil; at, flying = at+step, flying+1 {
			part := data[at:min(at+step, len(data))]
			q.Submit([]backend.Request{t.request(ns, part, at)})
		}
		if e := q.Wait(); e != nil {
			return errors.Join(err, e)
		}
		for _, r := range results[:q.Poll(results[:])] {
			flying--
			bar.add(int(r.Tag))
			if err == nil {
				err = r.Err
			}
		}
	}
	return err
}

// request moves a part of the data, whose length is its tag.
func (t *transfer) request(ns *host.Namespace, part []byte, at int) backend.Request {
	r := backend.Request{Tag: uint64(len(part)), Op: backend.OpRead, FUA: t.fua, Length: int64(len(part)), Buf: part}
	r.Offset = int64(t.startBlock)*int64(ns.BlockSize()) + int64(at)
	if t.name == "write" {
		r.Op = backend.OpWrite
	}
	return r
}

// load fills b from the data file; what the file lacks stays zero, as with
// nvme-cli.
func (t *transfer) load(in io.Reader, b []byte) error {
	if t.data != "" {
		f, err := os.Open(t.data)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	n, err := io.ReadFull(in, b)
	if n == 0 && err != nil {
		return fmt.Errorf("no data to write: %w", err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
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
