package nvmeverb

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
)

// blockFlags holds the flags of commands on a range of blocks.
type blockFlags struct {
	capsule.ReadWrite
	start     uint64
	count     uint16 // 0's based
	prinfo    uint8
	directive uint8
	tag       uint32 // initial reference tag
	app, mask uint16 // application tag
}

func (f *blockFlags) add(flags *pflag.FlagSet) {
	flags.Uint64Var(&f.start, "start-block", 0, "64-bit LBA of first block to access")
	flags.Uint16VarP(&f.count, "block-count", "c", 0, "number of blocks (zeroes based) on device to access")
	flags.BoolVarP(&f.LR, "limited-retry", "l", false, "limit media access attempts")
	flags.BoolVarP(&f.FUA, "force-unit-access", "f", false, "force device to commit data before command completes")
	flags.Uint8VarP(&f.prinfo, "prinfo", "p", 0, "PI and check field")
	flags.Uint32VarP(&f.tag, "ref-tag", "r", 0, "reference tag for end-to-end PI")
	flags.Uint16Var(&f.app, "app-tag", 0, "app tag for end-to-end PI")
	flags.Uint16VarP(&f.mask, "app-tag-mask", "m", 0, "app tag mask for end-to-end PI")
	flags.BoolVar(&f.STC, "storage-tag-check", false, "the Storage Tag field shall be checked as part of end-to-end data protection")
}

// addDirective adds the flags of commands that write.
func (f *blockFlags) addDirective(flags *pflag.FlagSet) {
	flags.Uint8VarP(&f.directive, "dir-type", "T", 0, "directive type (for write-only)")
	flags.Uint16Var(&f.DSPEC, "dir-spec", 0, "directive specific (for write-only)")
}

// special reports whether the command has any field set beyond the range of blocks.
func (f *blockFlags) special() bool {
	return f.LR || f.STC || f.prinfo != 0 || f.DSM != 0 || f.directive != 0 || f.DSPEC != 0 || f.tag != 0 || f.app != 0 || f.mask != 0
}

// command returns the command that the flags describe.
func (f *blockFlags) command(op capsule.IOOpcode) capsule.Command {
	f.SLBA, f.Blocks, f.PRINFO, f.DTYPE = capsule.LBA(f.start), uint32(f.count)+1, f.prinfo, f.directive
	cmd := capsule.Command{Opcode: capsule.Opcode(op), CDW14: f.tag, CDW15: uint32(f.mask)<<16 | uint32(f.app)}
	f.Put(&cmd)
	return cmd
}

// check rejects values that do not fit into the command.
func (f *blockFlags) check() error {
	const most = 0xf
	switch {
	case f.directive > most:
		return failure.Usagef("Invalid directive type, %x: 0 to %d", f.directive, most)
	case f.prinfo > most:
		return failure.Usagef("--prinfo %d: 0 to %d", f.prinfo, most)
	}
	return nil
}

// ioVerb returns a verb on a namespace.
func ioVerb(to Connection, name, short string, flags func(*pflag.FlagSet), run func(context.Context, *call) error) *cobra.Command {
	v := verb{Connection: to}
	return newVerb(name, short, 0, &v, func(f *pflag.FlagSet) {
		v.namespaceFlag(f, 0, "identifier of desired namespace (default: the lowest)")
		flags(f)
	}, run)
}

func newWriteZeroes(to Connection) *cobra.Command {
	var f blockFlags
	return ioVerb(to, "write-zeroes", "Make blocks read as zeroes", func(flags *pflag.FlagSet) {
		f.add(flags)
		f.addDirective(flags)
		flags.BoolVarP(&f.DEAC, "deac", "d", false, "set DEAC bit, requesting controller to deallocate specified logical blocks")
		flags.BoolVarP(&f.NSZ, "namespace-zeroes", "Z", false, "clear all logical blocks to zero in the entire namespace")
	}, func(ctx context.Context, c *call) error {
		return f.run(ctx, c, capsule.IOWriteZeroes, "NVME Write Zeroes Success")
	})
}

func newVerify(to Connection) *cobra.Command {
	var f blockFlags
	return ioVerb(to, "verify", "Verify that the controller can read blocks", f.add,
		func(ctx context.Context, c *call) error {
			return f.run(ctx, c, capsule.IOVerify, "NVME Verify Success")
		})
}

// oncsNamespaceZeroes says that Write Zeroes has the Namespace Zeroes bit (NVM command set 1.1, 4.1.5.2).
const oncsNamespaceZeroes = 1 << 12

// run executes a command without data.
func (f *blockFlags) run(ctx context.Context, c *call, op capsule.IOOpcode, done string) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.NSZ && c.Identify().ONCS&oncsNamespaceZeroes == 0 {
		return errors.New("this controller does not clear whole namespaces with one command (Identify Controller, ONCS bit 12): give --start-block and --block-count instead of --namespace-zeroes")
	}
	return c.execute(ctx, f.command(op), nil, done)
}

// dsmFlags holds the flags of nvme dsm.
type dsmFlags struct {
	attributes, blocks, starts string
	deallocate, write, read    bool
	cdw11                      uint32
}

func newDSM(to Connection) *cobra.Command {
	var f dsmFlags
	cmd := ioVerb(to, "dsm", "Deallocate ranges of blocks, or set hints on their use", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.attributes, "ctx-attrs", "", "comma separated list of the context attributes in each range")
		flags.StringVarP(&f.blocks, "blocks", "b", "", "comma separated list of the number of blocks in each range")
		flags.StringVar(&f.starts, "slbs", "", "comma separated list of the starting block in each range")
		flags.BoolVarP(&f.deallocate, "ad", "d", false, "attribute deallocate")
		flags.BoolVar(&f.write, "idw", false, "attribute integral dataset for write")
		flags.BoolVarP(&f.read, "idr", "r", false, "attribute integral dataset for read")
		flags.Uint32VarP(&f.cdw11, "cdw11", "c", 0, "all the command DWORD 11 attributes, instead of individual ones")
	}, func(ctx context.Context, c *call) error { return f.run(ctx, c) })
	cmd.Example = "  nvmeof dsm -t rdma -a 192.0.2.1 -n NQN --namespace-id 1 --slbs 0,4096 --blocks 8,2048 --ad"
	return cmd
}

// maxRanges is the maximum number of ranges of one Dataset Management command.
const maxRanges = 256

func (f *dsmFlags) run(ctx context.Context, c *call) error {
	attributes, err1 := numberList[uint32]("--ctx-attrs", f.attributes)
	blocks, err2 := numberList[uint32]("--blocks", f.blocks)
	starts, err3 := numberList[uint64]("--slbs", f.starts)
	n := max(len(attributes), len(blocks), len(starts))
	switch {
	case err1 != nil || err2 != nil || err3 != nil:
		return firstError(err1, err2, err3)
	case n == 0:
		return failure.Usagef("No range definition provided: --slbs and --blocks")
	case n > maxRanges:
		return failure.Usagef("%d ranges: %d at most", n, maxRanges)
	}
	data := make([]byte, n*capsule.DSMRangeSize)
	for i := range n {
		capsule.DSMRange{Attributes: nth(attributes, i), Blocks: nth(blocks, i), SLBA: capsule.LBA(nth(starts, i))}.Encode(data[i*capsule.DSMRangeSize:])
	}
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IODatasetManagement)}
	capsule.DatasetManagement{Ranges: n, Read: f.read, Write: f.write, Deallocate: f.deallocate}.Put(&cmd)
	if f.cdw11 != 0 {
		cmd.CDW11 = f.cdw11
	}
	return c.execute(ctx, cmd, data, "NVMe DSM: success")
}

// numberList parses a list of numbers, in decimal or with a prefix.
func numberList[T ~uint16 | ~uint32 | ~uint64](flag, list string) (all []T, err error) {
	if list == "" {
		return nil, nil
	}
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 0, 64)
		if err != nil || uint64(T(n)) != n {
			return nil, failure.Usagef("%s: %q is not a number from 0 to %d", flag, s, uint64(^T(0)))
		}
		all = append(all, T(n))
	}
	return all, nil
}

// nth returns an element, or zero if the list is shorter.
func nth[T any](list []T, i int) (v T) {
	if i < len(list) {
		v = list[i]
	}
	return v
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
