package nvmeverb

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
)

// reservationFlags holds the flags of nvme resv-register, resv-acquire and resv-release.
type reservationFlags struct {
	capsule.ReservationCommand
	current, other uint64
	action, kind   uint8
}

func (f *reservationFlags) add(flags *pflag.FlagSet) {
	flags.Uint64VarP(&f.current, "crkey", "c", 0, "current reservation key")
	flags.BoolVar(&f.IgnoreKey, "iekey", false, "ignore existing res. key")
}

func (f *reservationFlags) addKind(flags *pflag.FlagSet) {
	flags.Uint8Var(&f.kind, "rtype", 0, "reservation type: 1 to 6")
}

// send sends a command with its keys.
func (f *reservationFlags) send(ctx context.Context, c *call, op capsule.IOOpcode, size int, done string) error {
	f.Action, f.Type = f.action, capsule.ReservationType(f.kind)
	cmd := capsule.Command{Opcode: capsule.Opcode(op)}
	f.Put(&cmd)
	keys := make([]byte, capsule.ReservationKeysSize)
	capsule.ReservationKeys{Current: capsule.ReservationKey(f.current), Other: capsule.ReservationKey(f.other)}.Encode(keys)
	return c.execute(ctx, cmd, keys[:size], done)
}

// maxAction is the largest value of an action field.
const maxAction = 7

func newReservationRegister(to Connection) *cobra.Command {
	var f reservationFlags
	return ioVerb(to, "resv-register", "Register, unregister or replace this host's reservation key", func(flags *pflag.FlagSet) {
		f.add(flags)
		flags.Uint64VarP(&f.other, "nrkey", "k", 0, "new reservation key")
		flags.Uint8VarP(&f.action, "rrega", "r", 0, "reservation registration action: 0 register, 1 unregister, 2 replace")
		flags.Uint8VarP(&f.Persist, "cptpl", "p", 0, "change persistence through power loss setting: 0 no change, 2 off, 3 on")
	}, func(ctx context.Context, c *call) error {
		switch {
		case f.Persist > 3:
			return failure.Usagef("invalid cptpl:%d; 0, 2 or 3", f.Persist)
		case f.action > maxAction:
			return failure.Usagef("invalid rrega:%d; 0, 1 or 2", f.action)
		}
		return f.send(ctx, c, capsule.IOReservationRegister, capsule.ReservationKeysSize, "NVME Reservation  success")
	})
}

func newReservationAcquire(to Connection) *cobra.Command {
	var f reservationFlags
	return ioVerb(to, "resv-acquire", "Acquire a reservation, or take it from another host", func(flags *pflag.FlagSet) {
		f.add(flags)
		f.addKind(flags)
		flags.Uint64VarP(&f.other, "prkey", "p", 0, "pre-empt reservation key")
		flags.Uint8Var(&f.action, "racqa", 0, "reservation acquire action: 0 acquire, 1 preempt, 2 preempt and abort")
	}, func(ctx context.Context, c *call) error {
		if f.action > maxAction {
			return failure.Usagef("invalid racqa:%d; 0, 1 or 2", f.action)
		}
		return f.send(ctx, c, capsule.IOReservationAcquire, capsule.ReservationKeysSize, "NVME Reservation Acquire success")
	})
}

func newReservationRelease(to Connection) *cobra.Command {
	var f reservationFlags
	return ioVerb(to, "resv-release", "Release a reservation, or clear all of them", func(flags *pflag.FlagSet) {
		f.add(flags)
		f.addKind(flags)
		flags.Uint8Var(&f.action, "rrela", 0, "reservation release action: 0 release, 1 clear")
	}, func(ctx context.Context, c *call) error {
		if f.action > maxAction {
			return failure.Usagef("invalid rrela:%d; 0 or 1", f.action)
		}
		return f.send(ctx, c, capsule.IOReservationRelease, capsule.ReservationReleaseSize, "NVME Reservation Release success")
	})
}

func newReservationReport(to Connection) *cobra.Command {
	v := verb{Connection: to}
	var dwords uint32
	var extended bool
	return newVerb("resv-report", "Show the registrants and the holder of the reservation", canRaw, &v, func(f *pflag.FlagSet) {
		v.namespaceFlag(f, 0, "identifier of desired namespace (default: the lowest)")
		f.Uint32VarP(&dwords, "numd", "d", 0, "number of dwords to transfer (default 1024)")
		f.BoolVarP(&extended, "eds", "e", false, "request extended data structure")
	}, func(ctx context.Context, c *call) error {
		if dwords == 0 {
			dwords = reportDwords
		}
		if dwords > maxReportDwords {
			return failure.Usagef("--numd %d: %d at most", dwords, maxReportDwords)
		}
		// Hosts with 16-byte identifiers receive only the extended structure.
		return c.reservations(ctx, 4*int(dwords), extended || c.Identify().CTRATT&1 != 0)
	})
}

const (
	reportDwords    = 1024
	maxReportDwords = 1 << 16
)

func (c *call) reservations(ctx context.Context, size int, extended bool) error {
	ns, err := c.namespace(ctx)
	if err != nil {
		return err
	}
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IOReservationReport)}
	capsule.ReservationReport{Length: uint64(size), Extended: extended}.Put(&cmd)
	b := make([]byte, size)
	if _, err := ns.Execute(ctx, cmd, b); err != nil {
		return err
	}
	if c.raw {
		return c.write(b)
	}
	table, err := capsule.ParseReservationTable(b, extended)
	if err != nil {
		return err
	}
	return c.Reservations(&table, extended)
}
