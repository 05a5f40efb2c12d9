package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// connected runs f with a controller that the flags point at.
func (c *connection) connected(cmd *cobra.Command, f func(context.Context, *host.Controller) error) (err error) {
	s, err := c.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	ctx := cmd.Context()
	controller, err := s.connect(ctx, c.nqn)
	if err != nil {
		return err
	}
	if err := f(ctx, controller); err != nil {
		return statusFailure(cmd, err, func(status capsule.Status) string {
			wanted, _ := cmd.Flags().GetUint32("namespace-id")
			return advice(ctx, controller, status, wanted, string(s.identity.NQN))
		}) // closing the session disconnects
	}
	return controller.Disconnect(ctx)
}

func newIDCtrl() *cobra.Command {
	var vendor bool
	return newVerb("id-ctrl", "Identify a controller", canRaw|canHuman, &nvmeVerb{}, func(f *pflag.FlagSet) {
		vendorFlag(f, &vendor)
	}, func(ctx context.Context, c *call) error {
		return c.identify(ctx, 0, capsule.Identify{CNS: capsule.CNSController}, func(b []byte) error { return c.Output.IdentifyController(b, vendor) })
	})
}

func vendorFlag(f *pflag.FlagSet, vendor *bool) {
	f.BoolVarP(vendor, "vendor-specific", "V", false, "dump binary vendor field")
}

func newIDNS() *cobra.Command {
	var v nvmeVerb
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

func addNamespaceFlag(cmd *cobra.Command, nsid *uint32) {
	cmd.Flags().Uint32Var(nsid, "namespace-id", 0, "identifier of desired namespace (default: the lowest)")
}

// A namespaceLister knows which namespaces there are: a controller, or several paths.
type namespaceLister interface {
	Namespaces(context.Context) ([]capsule.NSID, error)
}

// chooseNamespace is the wanted namespace, or the lowest there is.
func chooseNamespace(ctx context.Context, h namespaceLister, wanted uint32) (capsule.NSID, error) {
	ids, err := h.Namespaces(ctx)
	if err != nil {
		return 0, err
	}
	if wanted == 0 && len(ids) > 0 {
		return ids[0], nil
	}
	for _, id := range ids {
		if uint32(id) == wanted {
			return id, nil
		}
	}
	if len(ids) == 0 {
		return 0, errors.New("the subsystem has no namespace")
	}
	return 0, usage("--namespace-id %d: there is no such namespace; there is: %s", wanted, list(texts(ids)))
}

func writeAll(w io.Writer, data []byte) error {
	_, err := w.Write(data)
	return err
}

func texts(ids []capsule.NSID) (s []string) {
	for _, id := range ids {
		s = append(s, fmt.Sprint(uint32(id)))
	}
	return s
}
