package nvmeverb

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
)

// A pageVerb is a verb that reads a log page of a fixed size and prints it.
type pageVerb struct {
	name, short string
	can         int
	nsid        capsule.NSID
	log         capsule.GetLogPage
	size        int
	print       func(c *call, b []byte) error
}

func (p pageVerb) command(to Connection) *cobra.Command {
	return newVerb(p.name, p.short, p.can, &verb{Connection: to}, nil, func(ctx context.Context, c *call) error { return c.page(ctx, p.nsid, p.log, p.size, p.print) })
}

// page reads a page, and prints it, or with --raw-binary writes it unchanged.
func (c *call) page(ctx context.Context, id capsule.NSID, g capsule.GetLogPage, size int, print func(c *call, b []byte) error) error {
	b := make([]byte, size)
	if err := c.Logs().Read(ctx, id, g, b); err != nil {
		return err
	}
	if c.raw {
		return c.write(b)
	}
	return print(c, b)
}

// decoded returns a function that decodes the bytes and prints the result.
func decoded[T any](decode func([]byte) (T, error), print func(*call, *T) error) func(*call, []byte) error {
	return func(c *call, b []byte) error {
		v, err := decode(b)
		if err != nil {
			return err
		}
		return print(c, &v)
	}
}

func newSMARTLog(to Connection) *cobra.Command {
	v := verb{Connection: to}
	return newVerb("smart-log", "Show the SMART log of a controller or a namespace", canRaw|canHuman, &v, func(f *pflag.FlagSet) {
		v.namespaceFlag(f, capsule.NSIDBroadcast, "(optional) desired namespace")
	}, func(ctx context.Context, c *call) error {
		return c.page(ctx, c.id(), capsule.GetLogPage{LID: capsule.LogSMART}, capsule.SMARTLogSize,
			decoded(capsule.DecodeSMARTLog, func(c *call, s *capsule.SMARTLog) error { return c.SMART(c.id(), s) }))
	})
}

func newErrorLog(to Connection) *cobra.Command {
	v := verb{Connection: to}
	var entries uint32
	return newVerb("error-log", "Show the error log of a controller", canRaw, &v, func(f *pflag.FlagSet) {
		f.Uint32VarP(&entries, "log-entries", "e", 64, "number of entries to retrieve")
	}, func(ctx context.Context, c *call) error {
		if entries == 0 {
			return failure.Usagef("--log-entries 0: at least one")
		}
		n := int(min(entries, uint32(c.Logs().ErrorEntries())))
		if c.raw {
			return c.page(ctx, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogError}, n*capsule.ErrorLogEntrySize, nil)
		}
		list, err := c.Logs().Errors(ctx, n)
		if err != nil {
			return err
		}
		return c.Errors(list)
	})
}

func newANALog(to Connection) *cobra.Command {
	v := verb{Connection: to}
	var groups bool
	return newVerb("ana-log", "Show the ANA states of a controller's namespaces", 0, &v, func(f *pflag.FlagSet) {
		f.BoolVarP(&groups, "groups", "g", false, "return ANA groups only")
	}, func(ctx context.Context, c *call) error {
		log, err := c.Logs().ANA(ctx, groups)
		if err != nil {
			return err
		}
		if c.raw {
			b := make([]byte, log.Size())
			log.Encode(b)
			return c.write(b)
		}
		return c.ANA(&log)
	})
}

func newEffectsLog(to Connection) *cobra.Command {
	const unset = -1
	v := verb{Connection: to}
	var csi int
	return newVerb("effects-log", "Show the commands that a controller supports, and their effects", canRaw|canHuman, &v, func(f *pflag.FlagSet) {
		f.IntVarP(&csi, "csi", "c", unset, "command set identifier (default: all)")
	}, func(ctx context.Context, c *call) error {
		if csi < unset || csi > 0xff {
			return failure.Usagef("--csi %d: 0 to 255", csi)
		}
		var sets []nvmecli.Effects
		for _, set := range nvmecli.EffectsSets(c.CAP().Fields().CSS, csi != unset, capsule.CSI(csi)) {
			log, err := c.Logs().Effects(ctx, set)
			if err != nil {
				return err
			}
			sets = append(sets, nvmecli.Effects{CSI: set, Log: log})
		}
		if !c.raw {
			return c.Effects(sets)
		}
		for i := range sets {
			b := make([]byte, capsule.EffectsLogSize)
			sets[i].Log.Encode(b)
			if err := c.write(b); err != nil {
				return err
			}
		}
		return nil
	})
}

func newFirmwareLog(to Connection) *cobra.Command {
	return pageVerb{"fw-log", "Show the firmware slots", canRaw, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogFirmwareSlot}, capsule.FirmwareLogSize,
		decoded(capsule.DecodeFirmwareLog, func(c *call, f *capsule.FirmwareLog) error { return c.Firmware(f) })}.command(to)
}

func newSupportedLogPages(to Connection) *cobra.Command {
	return pageVerb{"supported-log-pages", "Show the log pages that a controller supports", 0, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogSupportedPages}, capsule.SupportedLogSize,
		decoded(capsule.DecodeSupportedLog, func(c *call, s *capsule.SupportedLog) error { return c.SupportedLogs(s) })}.command(to)
}

func newChangedNamespaces(to Connection) *cobra.Command {
	return pageVerb{"changed-ns-list-log", "Show the namespaces that changed since this log was last read", canRaw, capsule.NSIDBroadcast,
		capsule.GetLogPage{LID: capsule.LogChangedNamespaces, RAE: true}, capsule.NamespaceListSize,
		func(c *call, b []byte) error { return c.Output.ChangedNamespaces(listed(b)) }}.command(to)
}

// listed returns the entries of a namespace list.
func listed(b []byte) (ids []capsule.NSID) {
	for i := 0; capsule.NSIDAt(b, i) != 0; i++ {
		ids = append(ids, capsule.NSIDAt(b, i))
	}
	return ids
}

func newReservationLog(to Connection) *cobra.Command {
	return pageVerb{"resv-notif-log", "Show the reservation notification log", 0, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogReservation}, capsule.ReservationLogSize,
		decoded(capsule.DecodeReservationLog, func(c *call, r *capsule.ReservationLog) error { return c.Output.ReservationNotification(r) })}.command(to)
}

func newFeatureEffects(to Connection) *cobra.Command {
	return pageVerb{"fid-support-effects-log", "Show the features that a controller supports, and the effects of setting them", canHuman, 0,
		capsule.GetLogPage{LID: capsule.LogFIDEffects}, capsule.FIDEffectsSize,
		decoded(capsule.DecodeFIDEffectsLog, func(c *call, l *capsule.FIDEffectsLog) error { return c.Output.FeatureEffects(l) })}.command(to)
}

func newMIEffects(to Connection) *cobra.Command {
	return pageVerb{"mi-cmd-support-effects-log", "Show the NVMe-MI commands that a controller supports", canHuman, 0,
		capsule.GetLogPage{LID: capsule.LogMIEffects}, capsule.MIEffectsSize,
		decoded(capsule.DecodeMIEffectsLog, func(c *call, l *capsule.MIEffectsLog) error { return c.Output.MIEffects(l) })}.command(to)
}
