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
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// transfer are the flags of read and write, with nvme-cli's names.
type transfer struct {
	connection
	write      bool
	nsid       uint32
	startBlock uint64
	blockCount uint16 // 0's based
	dataSize   string
	data       string
	fua        bool
	latency    bool
}

func newRead() *cobra.Command {
	return newTransfer(&transfer{}, "read", "Read blocks into a file or to standard output, as nvme read")
}

func newWrite() *cobra.Command {
	return newTransfer(&transfer{write: true}, "write", "Write blocks from a file or standard input, as nvme write")
}

func newTransfer(t *transfer, name, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     name + " -t rdma -a ADDR -n NQN --start-block N --block-count N --data-size BYTES [--data FILE]",
		Short:   short,
		Example: "  nvmeof " + name + " -t rdma -a 192.0.2.1 -n NQN --namespace-id 1 --start-block 0 --block-count 7 --data-size 4096 --data FILE",
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
	r := backend.Request{Op: backend.OpRead, FUA: t.fua, Offset: int64(t.startBlock) * int64(ns.BlockSize()), Length: length, Buf: make([]byte, length)}
	name := "read"
	if t.write {
		name, r.Op = "write", backend.OpWrite
		if err := t.load(cmd.InOrStdin(), r.Buf[:min(size, length)]); err != nil {
			return err
		}
	}
	took, err := carryOut(ns, r)
	if t.latency {
		fmt.Fprintf(cmd.ErrOrStderr(), " latency: %s: %d us\n", name, took.Microseconds())
	}
	if err == nil && !t.write {
		err = t.save(cmd.OutOrStdout(), r.Buf[:min(size, length)])
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: Success\n", name)
	return nil
}

// carryOut does one request and waits for it.
func carryOut(ns *host.Namespace, r backend.Request) (took time.Duration, err error) {
	q, err := ns.OpenQueue(1, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	start := time.Now()
	q.Submit([]backend.Request{r})
	var results [1]backend.Result
	for {
		if err := q.Wait(); err != nil {
			return 0, err
		}
		if q.Poll(results[:]) == 1 {
			return time.Since(start), results[0].Err
		}
	}
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
