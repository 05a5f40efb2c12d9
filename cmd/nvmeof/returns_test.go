package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/targetcommand"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestConfiguredDeviceReturns checks that a target whose device was lost serves again when it is back, with the
// changes made meanwhile.
func TestConfiguredDeviceReturns(t *testing.T) {
	beside(t)
	socket := filepath.Join(t.TempDir(), "s")
	setenv(t, "NVMEOF_SOCKET", socket)
	c := &configured{dir: t.TempDir(), testTarget: &testTarget{addr: "127.97.5.9"}}
	gone, opened := make(chan struct{}), 0
	out, errOut := newOutput(), newOutput()
	log, err := targetcommand.NewLog("console", "info", errOut, false)
	if err != nil {
		t.Fatal(err)
	}
	d := &targetcommand.Daemon{File: c.write(t, "target.yaml", testConfig), Socket: socket, Log: log, Out: out, ErrOut: errOut}
	if d.Document, err = targetcommand.ReadConfig(t.Context(), d.File, nil, errOut); err != nil {
		t.Fatal(err)
	}
	device := func(transport string, addr netip.Addr, cfg provider.Config) (rdmatransport.Device, error) {
		switch opened++; opened {
		case 1:
			d, err := provider.Open(transport, addr, cfg)
			return &losable{d, gone}, err
		case 2:
			return nil, fmt.Errorf("not back yet: %w", rdmatransport.ErrDeviceLost)
		}
		return provider.Open(transport, addr, cfg)
	}
	startDaemon(t, d, targetcommand.Machine{Device: device})
	out.await(t, "nvme connect")
	command(t, "namespace", "add", "3", "-n", testNQN, "--memory", "1MiB").want(t, 0)
	close(gone)
	errOut.await(t, "device is lost; its listeners wait for it")
	command(t, "ana-group", "set", "1", "--listener", "1", "--state", "non-optimized").want(t, 0)
	errOut.await(t, "address is available, listener is open")
	command(t, "ls").want(t, 0, "3 memory 1MiB", "1 "+c.addr+":4420\n", "ana-group 1 non-optimized")
	command(t, c.at("list")...).want(t, 0, "8.39  MB      4 KiB")
	if !strings.Contains(errOut.String(), "listener waits for its address") {
		t.Errorf("the log has no line about the waiting:\n%s", errOut)
	}
}
