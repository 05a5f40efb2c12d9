package nvmeverb

import (
	"context"
	"encoding/binary"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
)

// cnsAllocatedCSI lists the allocated namespaces of one command set.
const cnsAllocatedCSI capsule.CNS = 0x1a

func newListNamespaces(to Connection) *cobra.Command {
	const unset = -1
	v := verb{Connection: to}
	var csi int
	var all bool
	return newVerb("list-ns", "List the identifiers of namespaces", 0, &v, func(f *pflag.FlagSet) {
		v.namespaceFlag(f, 1, "first nsid returned list should start from")
		f.IntVarP(&csi, "csi", "y", unset, "I/O command set identifier")
		f.BoolVar(&all, "all", false, "show all namespaces in the subsystem, whether attached or inactive")
	}, func(ctx context.Context, c *call) error {
		if v.nsid == 0 {
			return failure.Usagef("invalid nsid parameter: --namespace-id 0; the first is 1")
		}
		if csi < unset || csi > 0xff {
			return failure.Usagef("--csi %d: 0 to 255", csi)
		}
		f := capsule.Identify{CNS: capsule.CNSActiveNamespaces}
		switch {
		case csi != unset && all:
			f.CNS = cnsAllocatedCSI
		case csi != unset:
			f.CNS = capsule.CNSActiveNamespacesCSI
		case all:
			f.CNS = capsule.CNSAllocatedNamespaces
		}
		f.CSI = capsule.CSI(max(0, csi))
		return c.identify(ctx, c.id()-1, f, func(b []byte) error { return c.NamespaceList(listed(b)) })
	})
}

// identify reads Identify data, and prints it, or with --raw-binary writes it unchanged.
func (c *call) identify(ctx context.Context, id capsule.NSID, f capsule.Identify, print func(b []byte) error) error {
	b, err := c.IdentifyData(ctx, id, f)
	if err != nil {
		return err
	}
	if c.raw {
		return c.write(b)
	}
	return print(b)
}

func newListControllers(to Connection) *cobra.Command {
	v := verb{Connection: to}
	var first uint16
	return newVerb("list-ctrl", "List the identifiers of the subsystem's controllers", 0, &v, func(f *pflag.FlagSet) {
		v.namespaceFlag(f, 0, "optional namespace attached to controller")
		f.Uint16VarP(&first, "cntid", "c", 0, "controller to display")
	}, func(ctx context.Context, c *call) error {
		f := capsule.Identify{CNS: capsule.CNSControllers, CNTID: capsule.ControllerID(first)}
		if c.id() != 0 {
			f.CNS = capsule.CNSNamespaceControllers
		}
		return c.identify(ctx, c.id(), f, func(b []byte) error {
			var ids []capsule.ControllerID
			for i := range min(int(binary.LittleEndian.Uint16(b)), len(b)/2-1) {
				ids = append(ids, capsule.ControllerID(binary.LittleEndian.Uint16(b[2+2*i:])))
			}
			return c.ControllerList(ids)
		})
	})
}

// An identifyVerb returns a verb that identifies one namespace.
func identifyVerb(to Connection, name, short string, can int, run func(ctx context.Context, c *call, id capsule.NSID) error) *cobra.Command {
	v := verb{Connection: to}
	return newVerb(name, short, can, &v, func(f *pflag.FlagSet) {
		v.namespaceFlag(f, 0, "identifier of desired namespace (default: the lowest)")
	}, func(ctx context.Context, c *call) error {
		id, err := c.wanted(ctx)
		if err != nil {
			return err
		}
		return run(ctx, c, id)
	})
}

// wanted returns the namespace of the flag, whether it exists or not; without the flag the lowest.
func (c *call) wanted(ctx context.Context) (capsule.NSID, error) {
	if c.id() != 0 {
		return c.id(), nil
	}
	return ChooseNamespace(ctx, c.Controller, 0)
}

func newDescriptors(to Connection) *cobra.Command {
	return identifyVerb(to, "ns-descs", "Show the namespace identification descriptors", canRaw, func(ctx context.Context, c *call, id capsule.NSID) error {
		return c.identify(ctx, id, capsule.Identify{CNS: capsule.CNSDescriptors}, func(b []byte) error { return c.Descriptors(id, b) })
	})
}

func newNVMNamespace(to Connection) *cobra.Command {
	return identifyVerb(to, "nvm-id-ns", "Identify a namespace of the NVM command set", 0, func(ctx context.Context, c *call, id capsule.NSID) error {
		b, err := c.IdentifyData(ctx, id, capsule.Identify{CNS: capsule.CNSNamespace})
		if err != nil {
			return err
		}
		ns, err := capsule.DecodeIdentifyNamespace(b)
		if err != nil {
			return err
		}
		return c.identify(ctx, id, capsule.Identify{CNS: capsule.CNSNamespaceCSI}, func(b []byte) error {
			n, err := capsule.DecodeIdentifyNVMNamespace(b)
			if err != nil {
				return err
			}
			return c.NVMNamespace(id, &ns, &n)
		})
	})
}

func newIndependentNamespace(to Connection) *cobra.Command {
	return identifyVerb(to, "cmdset-ind-id-ns", "Identify a namespace, independently of its command set", canRaw|canHuman, func(ctx context.Context, c *call, id capsule.NSID) error {
		return c.identify(ctx, id, capsule.Identify{CNS: capsule.CNSNamespaceIndependent}, func(b []byte) error {
			n, err := capsule.DecodeIdentifyNamespaceIndependent(b)
			if err != nil {
				return err
			}
			return c.IndependentNamespace(id, &n)
		})
	})
}

func newNVMController(to Connection) *cobra.Command {
	return newVerb("nvm-id-ctrl", "Identify a controller of the NVM command set", 0, &verb{Connection: to}, nil, func(ctx context.Context, c *call) error {
		return c.identify(ctx, 0, capsule.Identify{CNS: capsule.CNSControllerCSI}, func(b []byte) error {
			n, err := capsule.DecodeIdentifyNVMController(b)
			if err != nil {
				return err
			}
			return c.NVMController(&n)
		})
	})
}
