package nvmeverb

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func newIDCtrl(to Connection) *cobra.Command {
	var vendor bool
	return newVerb("id-ctrl", "Identify a controller", canRaw|canHuman, &verb{Connection: to}, func(f *pflag.FlagSet) {
		vendorFlag(f, &vendor)
	}, func(ctx context.Context, c *call) error {
		return c.identify(ctx, 0, capsule.Identify{CNS: capsule.CNSController}, func(b []byte) error { return c.Output.IdentifyController(b, vendor) })
	})
}

func vendorFlag(f *pflag.FlagSet, vendor *bool) {
	f.BoolVarP(vendor, "vendor-specific", "V", false, "dump binary vendor field")
}

func newIDNS(to Connection) *cobra.Command {
	v := verb{Connection: to}
	var vendor, force bool
	return newVerb("id-ns", "Identify a namespace", canRaw|canHuman, &v, func(f *pflag.FlagSet) {
		v.namespaceFlag(f, 0, "identifier of desired namespace (default: the lowest)")
		vendorFlag(f, &vendor)
		f.BoolVar(&force, "force", false, "return this namespace, even if not attached (1.2 devices only)")
	}, func(ctx context.Context, c *call) error {
		f, find := capsule.Identify{CNS: capsule.CNSNamespace}, c.there
		if force {
			f.CNS, find = capsule.CNSAllocatedNamespace, c.wanted
		}
		id, err := find(ctx)
		if err != nil {
			return err
		}
		return c.identify(ctx, id, f, func(b []byte) error { return c.Output.IdentifyNamespace(id, b, vendor) })
	})
}
