package nvmeverb

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
)

// copyFlags holds the flags of nvme copy.
type copyFlags struct {
	capsule.Copy
	to        uint64
	directive uint8
	specific  uint16
	tag       uint32 // initial reference tag of the destination
	app, mask uint16 // application tag of the destination

	// Lists with an element for each range.
	starts, blocks, namespaces, options string
	tags, apps, masks                   string
}

func newCopy(to Connection) *cobra.Command {
	var f copyFlags
	cmd := ioVerb(to, "copy", "Copy blocks within a namespace, or from others", f.add, func(ctx context.Context, c *call) error { return f.run(ctx, c) })
	cmd.Example = "  nvmeof copy -t rdma -a 192.0.2.1 -n NQN --namespace-id 1 --sdlba 4096 --slbs 0,64 --blocks 7,7"
	return cmd
}

func (f *copyFlags) add(flags *pflag.FlagSet) {
	flags.Uint64VarP(&f.to, "sdlba", "d", 0, "64-bit addr of first destination logical block")
	flags.StringVar(&f.starts, "slbs", "", "64-bit addr of first block per range (comma-separated list)")
	flags.StringVarP(&f.blocks, "blocks", "b", "", "number of blocks per range (comma-separated list, zeroes-based values)")
	flags.StringVarP(&f.namespaces, "snsids", "N", "", "source namespace identifier per range (comma-separated list)")
	flags.StringVarP(&f.options, "sopts", "O", "", "source options per range (comma-separated list)")
	flags.BoolVarP(&f.LR, "limited-retry", "l", false, "limit media access attempts")
	flags.BoolVarP(&f.FUA, "force-unit-access", "f", false, "force device to commit data before command completes")
	flags.Uint8VarP(&f.PRINFOW, "prinfow", "p", 0, "protection information and check field (write part)")
	flags.Uint8VarP(&f.PRINFOR, "prinfor", "P", 0, "protection information and check field (read part)")
	flags.Uint32VarP(&f.tag, "ref-tag", "r", 0, "initial lba reference tag (write part)")
	flags.StringVarP(&f.tags, "expected-ref-tags", "R", "", "expected lba reference tags (read part, comma-separated list)")
	flags.Uint16Var(&f.app, "app-tag", 0, "lba application tag (write part)")
	flags.StringVarP(&f.apps, "expected-app-tags", "A", "", "expected lba application tags (read part, comma-separated list)")
	flags.Uint16VarP(&f.mask, "app-tag-mask", "m", 0, "lba application tag mask (write part)")
	flags.StringVarP(&f.masks, "expected-app-tag-masks", "M", "", "expected lba application tag masks (read part, comma-separated list)")
	flags.Uint8VarP(&f.directive, "dir-type", "T", 0, "directive type (write part)")
	flags.Uint16Var(&f.specific, "dir-spec", 0, "directive specific (write part)")
	flags.Uint8VarP(&f.Format, "format", "F", 0, "source range entry format: 0 to 3")
}

func (f *copyFlags) run(ctx context.Context, c *call) error {
	ranges, err := f.ranges()
	if err != nil {
		return err
	}
	size := capsule.CopyEntrySize(f.Format)
	data := make([]byte, len(ranges)*size)
	for i := range ranges {
		ranges[i].Encode(f.Format, data[i*size:])
	}
	f.SDLBA, f.Ranges, f.DTYPE = capsule.LBA(f.to), len(ranges), f.directive
	cmd := capsule.Command{
		Opcode: capsule.Opcode(capsule.IOCopy),
		CDW13:  uint32(f.specific) << 16, CDW14: f.tag, CDW15: uint32(f.mask)<<16 | uint32(f.app),
	}
	f.Put(&cmd)
	return c.execute(ctx, cmd, data, "NVMe Copy: success")
}

// ranges combines the lists.
func (f *copyFlags) ranges() ([]capsule.CopyEntry, error) {
	starts, err1 := numberList[uint64]("--slbs", f.starts)
	blocks, err2 := numberList[uint16]("--blocks", f.blocks)
	namespaces, err3 := numberList[uint32]("--snsids", f.namespaces)
	options, err4 := numberList[uint16]("--sopts", f.options)
	tags, err5 := numberList[uint64]("--expected-ref-tags", f.tags)
	apps, err6 := numberList[uint16]("--expected-app-tags", f.apps)
	masks, err7 := numberList[uint16]("--expected-app-tag-masks", f.masks)
	n := max(len(starts), len(blocks), len(tags), len(apps), len(masks))
	if err := firstError(err1, err2, err3, err4, err5, err6, err7, f.check(n, len(namespaces))); err != nil {
		return nil, err
	}
	all := make([]capsule.CopyEntry, n)
	for i := range all {
		all[i] = capsule.CopyEntry{
			NSID: capsule.NSID(nth(namespaces, i)), SLBA: capsule.LBA(nth(starts, i)), Blocks: uint32(nth(blocks, i)) + 1, Options: nth(options, i),
			ReferenceTag: nth(tags, i), ApplicationTag: nth(apps, i), ApplicationMask: nth(masks, i),
		}
	}
	return all, nil
}

// check rejects values that do not fit into a command.
func (f *copyFlags) check(ranges, namespaces int) error {
	const mostDirective = 0xf
	switch {
	case f.Format > capsule.MaxCopyFormat:
		return failure.Usagef("invalid format: --format %d; 0 to %d", f.Format, capsule.MaxCopyFormat)
	case f.Format < capsule.CopyFormatOthers && namespaces > 0:
		return failure.Usagef("formats 0 and 1 do not support cross-namespace copy: no --snsids, or --format 2 or 3")
	case f.Format >= capsule.CopyFormatOthers && (namespaces == 0 || namespaces != ranges):
		return failure.Usagef("formats 2 and 3 require source namespace ids for each source range: --snsids, %d of them", ranges)
	case ranges == 0:
		return failure.Usagef("invalid range: --slbs and --blocks")
	case ranges > maxRanges:
		return failure.Usagef("%d ranges: %d at most", ranges, maxRanges)
	case f.directive > mostDirective:
		return failure.Usagef("Invalid directive type, %x: 0 to %d", f.directive, mostDirective)
	}
	return nil
}
