package nvmeverb

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

func newShowRegisters(to Connection) *cobra.Command {
	return newVerb("show-regs", "Show a controller's properties", canHuman, &verb{Connection: to}, nil, func(ctx context.Context, c *call) error {
		var r nvmecli.Registers
		for _, p := range []struct {
			off   capsule.PropertyOffset
			store func(v uint64)
		}{
			{capsule.PropertyCAP, func(v uint64) { r.CAP = capsule.CAP(v) }}, {capsule.PropertyVS, func(v uint64) { r.VS = capsule.Version(v) }},
			{capsule.PropertyCC, func(v uint64) { r.CC = capsule.CC(v) }}, {capsule.PropertyCSTS, func(v uint64) { r.CSTS = capsule.CSTS(v) }},
		} {
			v, err := c.Properties().Get(ctx, p.off)
			if err != nil {
				return err
			}
			p.store(v)
		}
		// Few controllers support a subsystem reset.
		v, err := c.Properties().Get(ctx, capsule.PropertyNSSR)
		switch {
		case err == nil:
			nssr := uint32(v)
			r.NSSR = &nssr
		case !notThere(err):
			return err
		}
		return c.Registers(r)
	})
}

// notThere reports whether the controller does not have the property.
func notThere(err error) bool {
	var refused *host.StatusError
	return errors.As(err, &refused) && refused.Status.Code() == capsule.StatusInvalidField
}

const offsetHelp = "CAP=0x0, VS=0x8, CC=0x14, CSTS=0x1c, NSSR=0x20, NSSD=0x64, CRTO=0x68"

// noOffset is not the offset of a property.
const noOffset = ^uint32(0)

func offsetFlag(f *pflag.FlagSet, offset *uint32) {
	f.Uint32VarP(offset, "offset", "O", noOffset, "offset of the property: "+offsetHelp)
	f.Lookup("offset").DefValue = ""
}

func newGetProperty(to Connection) *cobra.Command {
	var offset uint32
	return newVerb("get-property", "Show one property of a controller", canHuman, &verb{Connection: to}, func(f *pflag.FlagSet) { offsetFlag(f, &offset) },
		func(ctx context.Context, c *call) error {
			if offset == noOffset {
				return failure.Usagef("offset required param: --offset, one of %s", offsetHelp)
			}
			v, err := c.Properties().Get(ctx, capsule.PropertyOffset(offset))
			if capsule.PropertyOffset(offset) == capsule.PropertyNSSR && notThere(err) {
				v, err = nvmecli.NoProperty, nil
			}
			if err != nil {
				return err
			}
			return c.Output.Property(capsule.PropertyOffset(offset), v)
		})
}

func newSetProperty(to Connection) *cobra.Command {
	var offset uint32
	var value uint64
	var cmd *cobra.Command
	cmd = newVerb("set-property", "Set a property of a controller", 0, &verb{Connection: to}, func(f *pflag.FlagSet) {
		offsetFlag(f, &offset)
		f.Uint64VarP(&value, "value", "V", 0, "the value of the property to be set")
	}, func(ctx context.Context, c *call) error {
		switch {
		case offset == noOffset:
			return failure.Usagef("offset required param: --offset, one of %s", offsetHelp)
		case !cmd.Flags().Changed("value"):
			return failure.Usagef("value required param: --value")
		}
		if err := c.Properties().Set(ctx, capsule.PropertyOffset(offset), value); err != nil {
			return err
		}
		return c.PropertySet(capsule.PropertyOffset(offset), value)
	})
	return cmd
}
