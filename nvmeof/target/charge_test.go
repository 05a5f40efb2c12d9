package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestCostOfNamespaces: a command that visits all namespaces of its host is charged for that, so that a host which
// sends many of them does not delay others.
func TestCostOfNamespaces(t *testing.T) {
	const more = 50
	f := newFixture(t)
	for range more {
		f.export(newNullStore(1 << 20))
	}
	h, io := f.both()
	page := func(lid capsule.LID, id capsule.NSID) *hostCommand {
		c := adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: lid, Length: 64}, make([]byte, 64))
		c.sqe.NSID = id
		return c
	}
	mask := func(id capsule.NSID) *hostCommand {
		c := adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureReservationMask}, nil)
		c.sqe.NSID = id
		return c
	}
	set := func(id capsule.FID, v uint32) *hostCommand {
		return adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: id, Value: v}, nil)
	}
	made := adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogPersistentEvent, LSP: uint8(capsule.PersistentEstablish), Length: 64}, make([]byte, 64))
	late := f.dial(0, 0, 32)
	late.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
	enable := fabricsCommand(capsule.FabricsPropertySet, capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCC), Value: uint64(linuxCC.WithEnable(true))})
	for name, c := range map[string]struct {
		at      *hostQueue
		command *hostCommand
		each    int
	}{
		"enabled":          {late, enable, healthCost},
		"threshold":        {h, set(capsule.FeatureTemperatureThreshold, 400), healthCost},
		"warnings enabled": {h, set(capsule.FeatureAsyncEvent, capsule.EventSMART), healthCost},
		"health of all":    {h, page(capsule.LogSMART, capsule.NSIDBroadcast), healthCost},
		"health of one":    {h, page(capsule.LogSMART, 1), 0},
		"ANA log":          {h, page(capsule.LogANA, 0), lookCost},
		"persistent, made": {h, made, healthCost},
		"error log":        {h, page(capsule.LogError, 0), 0},
		"namespaces":       {h, identifyCommand(0, capsule.CNSActiveNamespaces), lookCost},
		"notices of all":   {h, mask(capsule.NSIDBroadcast), lookCost},
		"notices of one":   {h, mask(1), 0},
		"flush of all":     {io, ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil), lookCost},
		"flush of one":     {io, ioCommand(capsule.IOFlush, 1, nil, nil), 0},
	} {
		c.at.do(c.command)
		if want := (more + 1) * c.each; c.command.charged != want {
			t.Errorf("%s: counts as %d bytes, want %d", name, c.command.charged, want)
		}
	}
}
