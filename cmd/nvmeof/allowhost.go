package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

const allowHostHelp = `NQN of a host that may connect, then options after commas: dhchap-key-file=PATH (the host must know that key), dhchap-ctrl-key-file=PATH (the target's own), dhchap-hash=NAME, dhchap-dhgroup=NAME; keys are read again on SIGHUP`

// An allowedHost is one --allow-host.
type allowedHost struct {
	nqn              string
	keyFile, ctrlKey string // paths
	hashes           []auth.Hash
	groups           []auth.Group
}

var allowHostOptions = []string{"dhchap-key-file", "dhchap-ctrl-key-file", "dhchap-hash", "dhchap-dhgroup"}

// parseAllowHost reads "NQN,dhchap-key-file=PATH". A name may have commas itself.
func parseAllowHost(s string) (h allowedHost, err error) {
	nqn, options, keyed := strings.Cut(s, ",dhchap-")
	n, err := nvmeof.AnyNQN(nqn)
	if err != nil || !keyed {
		return allowedHost{nqn: string(n)}, err
	}
	h.nqn = nqn
	for option := range strings.SplitSeq("dhchap-"+options, ",") {
		if err := h.option(option); err != nil {
			return h, fmt.Errorf("%s: %w", n, err)
		}
	}
	if h.keyFile == "" {
		return h, fmt.Errorf("%s: dhchap-key-file is missing, without which nothing is authenticated", n)
	}
	return h, nil
}

func (h *allowedHost) option(s string) error {
	key, value, _ := strings.Cut(s, "=")
	switch key {
	case "dhchap-key-file":
		h.keyFile = value
	case "dhchap-ctrl-key-file":
		h.ctrlKey = value
	case "dhchap-hash":
		hash, err := auth.ParseHash(value)
		h.hashes = append(h.hashes, hash)
		return err
	case "dhchap-dhgroup":
		group, err := auth.ParseGroup(value)
		h.groups = append(h.groups, group)
		return err
	default:
		return fmt.Errorf("unknown option %q; there are %s%s", key, list(slices.Clone(allowHostOptions)), didYouMean(key, allowHostOptions))
	}
	if value == "" {
		return fmt.Errorf("%s is empty: the path of a file with a key, as nvmeof gen-dhchap-key prints it", key)
	}
	return nil
}

// config reads the keys as they are now.
func (h *allowedHost) config() (c target.HostConfig, warnings []string, err error) {
	c = target.HostConfig{NQN: h.nqn, DHCHAPHashes: h.hashes, DHCHAPGroups: h.groups}
	for _, k := range []struct {
		path string
		key  *auth.Key
	}{{h.keyFile, &c.DHCHAPKey}, {h.ctrlKey, &c.DHCHAPCtrlKey}} { // the paths may be the same
		if k.path == "" {
			continue
		}
		var warning string
		if *k.key, warning, err = control.ReadKey(context.Background(), k.path); err != nil {
			return c, nil, fmt.Errorf("key of host %s: %w", h.nqn, err)
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	return c, warnings, nil
}

// allow lets the hosts in, or takes changed keys: all, or none where one cannot be
// read.
func allow(s *target.Subsystem, hosts []allowedHost, log *zap.Logger) error {
	var configs []target.HostConfig
	for i := range hosts {
		c, warnings, err := hosts[i].config()
		if err != nil {
			return err
		}
		for _, w := range warnings {
			log.Warn(w)
		}
		configs = append(configs, c)
	}
	for _, c := range configs {
		if err := s.SetHost(c); err != nil {
			return err
		}
	}
	return nil
}

// rereadKeys takes changed keys on SIGHUP, until forget is called. Connections stay:
// the keys count from their next authentication.
func rereadKeys(s *target.Subsystem, hosts []allowedHost, log *zap.Logger) (forget func()) {
	return onSignal(unix.SIGHUP, func() {
		if err := allow(s, hosts, log); err != nil {
			log.Error("keys are as before", zap.Error(err))
			return
		}
		log.Info("keys are read again", zap.Int("hosts", len(hosts)))
	})
}
