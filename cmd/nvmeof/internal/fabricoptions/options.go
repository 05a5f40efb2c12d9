package fabricoptions

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
)

// ownOptions are the options that nvme-cli does not have. They are used on command lines and between processes, but
// not in files.
var ownOptions = []hostconfig.Option{
	{Name: "provider", Usage: "RDMA transport of this host: " + provider.Help},
	{Name: "windows", Usage: "separate R_Key for each command's memory: on, off, or auto (if the RDMA device has reliable memory windows)"},
	{Name: "timeout", Usage: "timeout of a command, in milliseconds or as in 30s"},
	{Name: "ack-timeout", Usage: provider.AckTimeoutHelp},
	{Name: "rcvbuf", Usage: "receive buffer of each socket in bytes, with softroce (default: 8 MiB, as far as allowed)"},
	{Name: "congestion", Usage: provider.CongestionHelp},
	{Name: "iopolicy", Lost: true, Usage: iopolicyHelp},
}

// All returns all options of connections. Flags, options passed between processes, and checks are derived from them.
func All() []hostconfig.Option { return slices.Concat(hostconfig.Known(), ownOptions) }

// LostNames returns the names of the options that apply only to connections that stay.
func LostNames() (names []string) {
	for _, o := range hostconfig.Known() {
		if o.Lost {
			names = append(names, o.Name)
		}
	}
	return names
}

// addOptions adds the flags of the options that have a variable in values. The default of a string or a switch is the
// variable's value.
func addOptions(flags *pflag.FlagSet, values map[string]any, sqflow string) {
	for _, o := range All() {
		short := ""
		if o.Short != 0 {
			short = string(o.Short)
		}
		switch v := values[o.Name].(type) {
		case nil:
			continue
		case *string:
			flags.StringVarP(v, o.Name, short, *v, o.Usage)
		case *int:
			flags.IntVarP(v, o.Name, short, max(*v, o.Default), o.Usage)
		case *uint8:
			flags.Uint8VarP(v, o.Name, short, *v, o.Usage)
		case *bool:
			if o.Name == "disable-sqflow" { // its shorthand differs between nvme-cli's commands
				short = sqflow
			}
			flags.BoolVarP(v, o.Name, short, *v, o.Usage)
		case pflag.Value:
			flags.VarP(v, o.Name, short, o.Usage)
		}
		if o.Hidden {
			_ = flags.MarkHidden(o.Name)
		}
	}
}

// addRefused adds hidden flags for the options that are not supported, so that checkRefused can say why.
func addRefused(flags *pflag.FlagSet) {
	for _, o := range hostconfig.Known() {
		if o.Refused() == "" {
			continue
		}
		for _, name := range []string{o.Name, o.Also} {
			if name == "" {
				continue
			}
			short := ""
			if o.Short != 0 && name == o.Name {
				short = string(o.Short)
			}
			flags.StringP(name, short, "", "")
			if o.IsFlag() {
				flags.Lookup(name).NoOptDefVal = "true"
			}
			_ = flags.MarkHidden(name)
		}
	}
}

// checkRefused returns an error if one of those is set.
func checkRefused(flags *pflag.FlagSet) error {
	for _, o := range hostconfig.Known() {
		if o.Refused() == "" {
			continue
		}
		for _, name := range []string{o.Name, o.Also} {
			if f := flags.Lookup(name); f != nil && !slices.Contains([]string{"", "false", "0"}, f.Value.String()) {
				return failure.Usagef("--%s: %s", name, o.Refused())
			}
		}
	}
	return nil
}

// checkBounds checks the bounds of the numbers in values.
func checkBounds(values map[string]any) error {
	for _, o := range hostconfig.Known() {
		if n, is := values[o.Name].(*int); is && !o.InRange(*n) {
			unit := ""
			if o.Max == hostconfig.MaxSeconds {
				unit = " seconds"
			}
			return failure.Usagef("--%s %d: %d to %d%s", o.Name, *n, o.Min, o.Max, unit)
		}
	}
	return nil
}
