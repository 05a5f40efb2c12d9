package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
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
		return statusFailure(cmd, err) // closing the session disconnects
	}
	return controller.Disconnect(ctx)
}

func newIDCtrl() *cobra.Command {
	var c connection
	var format string
	var raw bool
	cmd := &cobra.Command{
		Use:   "id-ctrl -t rdma -a ADDR -n NQN",
		Short: "Identify a controller, as nvme id-ctrl",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			print, err := pick(rawFormat(format, raw), map[string]func(io.Writer, []byte) error{
				"normal": controllerPrinter(nvmecli.ControllerText),
				"json":   controllerPrinter(nvmecli.ControllerJSON),
				"binary": writeAll,
			})
			if err != nil {
				return err
			}
			return c.connected(cmd, func(ctx context.Context, h *host.Controller) error {
				data, err := h.IdentifyData(ctx, 0, capsule.Identify{CNS: capsule.CNSController})
				if err != nil {
					return err
				}
				return print(cmd.OutOrStdout(), data)
			})
		},
	}
	c.addFlags(cmd)
	addFormatFlags(cmd, &format, &raw)
	return cmd
}

func addFormatFlags(cmd *cobra.Command, format *string, raw *bool) {
	cmd.Flags().StringVarP(format, "output-format", "o", "normal", "output format: normal|json|binary")
	cmd.Flags().BoolVarP(raw, "raw-binary", "b", false, "show identify in binary format")
}

func rawFormat(format string, raw bool) string {
	if raw {
		return "binary"
	}
	return format
}

func controllerPrinter(print func(io.Writer, *capsule.IdentifyController) error) func(io.Writer, []byte) error {
	return func(w io.Writer, data []byte) error {
		id, err := capsule.DecodeIdentifyController(data)
		if err != nil {
			return err
		}
		return print(w, &id)
	}
}

func writeAll(w io.Writer, data []byte) error {
	_, err := w.Write(data)
	return err
}

func newIDNS() *cobra.Command {
	var c connection
	var format string
	var raw bool
	var nsid uint32
	cmd := &cobra.Command{
		Use:   "id-ns -t rdma -a ADDR -n NQN [--namespace-id N]",
		Short: "Identify a namespace, as nvme id-ns",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			print, err := pick(rawFormat(format, raw), map[string]func(io.Writer, capsule.NSID, []byte) error{
				"normal": nvmecli.NamespaceText,
				"json":   func(w io.Writer, _ capsule.NSID, data []byte) error { return nvmecli.NamespaceJSON(w, data) },
				"binary": func(w io.Writer, _ capsule.NSID, data []byte) error { return writeAll(w, data) },
			})
			if err != nil {
				return err
			}
			return c.connected(cmd, func(ctx context.Context, h *host.Controller) error {
				id, err := chooseNamespace(ctx, h, nsid)
				if err != nil {
					return err
				}
				data, err := h.IdentifyData(ctx, id, capsule.Identify{CNS: capsule.CNSNamespace})
				if err != nil {
					return err
				}
				return print(cmd.OutOrStdout(), id, data)
			})
		},
	}
	c.addFlags(cmd)
	addFormatFlags(cmd, &format, &raw)
	addNamespaceFlag(cmd, &nsid)
	return cmd
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

func texts(ids []capsule.NSID) (s []string) {
	for _, id := range ids {
		s = append(s, fmt.Sprint(uint32(id)))
	}
	return s
}
