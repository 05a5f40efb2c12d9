package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	document "github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// text is the document of both processes. Only the listener differs.
const text = `version: 1
listeners: [{id: %d, address: %s}]
subsystems:
- nqn: %s
  allow-any-host: true
  namespaces: [{nsid: 1, file: {path: %s}, block-size: 4096}]
`

// serve runs one of the two processes.
func (c *config) serve() (err error) {
	log, err := zap.NewProduction()
	if err != nil {
		return err
	}
	doc, _, err := document.Parse("gateway", fmt.Appendf(nil, text, c.number, c.addrs[c.number-1], c.nqn, c.file))
	if err != nil {
		return err
	}
	g := new(target.Gateway)
	first := uint16(1 + 2040*(c.number-1))
	ids, err := target.ParseControllerRange(fmt.Sprintf("%d..%d", first, first+2039))
	if err != nil {
		return err
	}
	t, err := target.New(target.Config{Log: log, Polling: nvmeof.PollNever, Controllers: ids, Gateway: g})
	if err != nil {
		return err
	}
	m := control.New(control.Config{Target: t, Settings: &document.Document{Version: 1}, Log: log, Gateway: g,
		Device: func(a netip.Addr, _ document.Transport) (rdmatransport.Device, error) {
			return softroce.Open(softroce.Config{Addr: a})
		}})
	defer func() { err = errors.Join(err, m.Close()) }()
	if _, err := m.Apply(doc, control.Options{}); err != nil {
		return err
	}
	if err := g.SetPeers(c.peers(), 1); err != nil {
		return err
	}
	return obey(func(what string, epoch uint64) error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if what == "drain" {
			return control.DrainGroup(ctx, m, 1)
		}
		return control.ServeGroup(ctx, m, 1, epoch)
	})
}

// peers returns the listeners of the other process.
func (c *config) peers() (all []target.Peer) {
	for i, a := range c.addrs {
		if addr, err := netip.ParseAddr(a); err == nil && i != c.number-1 {
			all = append(all, target.Peer{Port: target.PortID(i + 1), Addr: netip.AddrPortFrom(addr, nvmeof.DefaultPort)})
		}
	}
	return all
}
