package host

import (
	"context"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// TestLogs reads every log page of our target with the typed methods.
func TestLogs(t *testing.T) {
	r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512), newStore(t, 1<<20, 4096)}})
	c := r.connect(r.options())
	ctx := t.Context()
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	smart, err := c.Logs().SMART(ctx, capsule.NSIDBroadcast)
	ok("SMART", err)
	if smart.Temperature != 0 || smart.AvailableSpare != 100 { // no store of the rig has a sensor
		t.Errorf("SMART log: %+v", smart)
	}
	ana, err := c.Logs().ANA(ctx, false)
	ok("ANA", err)
	if len(ana.Groups) != 1 || !slices.Equal(ana.Groups[0].Namespaces, []capsule.NSID{1, 2}) || ana.Groups[0].State != capsule.ANAOptimized {
		t.Errorf("ANA log: %+v", ana)
	}
	ana, err = c.Logs().ANA(ctx, true)
	ok("ANA groups", err)
	if len(ana.Groups) != 1 || len(ana.Groups[0].Namespaces) != 0 {
		t.Errorf("ANA groups: %+v", ana)
	}
	effects, err := c.Logs().Effects(ctx, capsule.CSINVM)
	ok("effects", err)
	if effects.Admin[capsule.AdminIdentify]&capsule.EffectSupported == 0 || effects.IO[capsule.IORead]&capsule.EffectSupported == 0 || effects.IO[0x7e] != 0 {
		t.Error("effects log lacks Identify or Read, or has too much")
	}
	supported, err := c.Logs().SupportedPages(ctx)
	ok("supported pages", err)
	if supported[capsule.LogSMART] != capsule.LogSupported || supported[capsule.LogSelfTest] != 0 {
		t.Errorf("supported log pages: %v", supported)
	}
	features, err := c.Logs().FeatureEffects(ctx)
	ok("feature effects", err)
	if features[capsule.FeatureNumberOfQueues]&capsule.FIDSupported == 0 {
		t.Error("the number of queues is no feature")
	}
	_, err = c.Logs().MIEffects(ctx)
	ok("NVMe-MI effects", err)
	firmware, err := c.Logs().Firmware(ctx)
	ok("firmware", err)
	if firmware.AFI != 1 || firmware.FRS[0][0] == 0 {
		t.Errorf("firmware log: %+v", firmware)
	}
	notice, err := c.Logs().ReservationNotification(ctx)
	ok("reservation notification", err)
	if notice != (capsule.ReservationLog{}) {
		t.Errorf("reservation notification %+v, want none", notice)
	}
}

// TestErrorLog: failed commands are in the error log, newest first.
func TestErrorLog(t *testing.T) {
	r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
	c := r.connect(r.options())
	n := r.namespace(c)
	for lba := range uint64(3) {
		cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IORead)}
		capsule.ReadWrite{SLBA: capsule.LBA(1<<40 + lba), Blocks: 1}.Put(&cmd)
		if _, err := n.Execute(t.Context(), cmd, make([]byte, 512)); err == nil {
			t.Fatal("a read past the end succeeded")
		}
	}
	entries, err := c.Logs().Errors(t.Context(), 1000)
	if err != nil || len(entries) != c.Logs().ErrorEntries() {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i := range 3 {
		if want := capsule.LBA(1<<40 + 2 - i); entries[i].LBA != want || entries[i].Status.Code() != capsule.StatusLBAOutOfRange {
			t.Errorf("entry %d: %+v, want block %d", i, entries[i], want)
		}
	}
	if entries[3].Count != 0 {
		t.Errorf("more errors than commands: %+v", entries[3])
	}
	if none, err := c.Logs().Errors(t.Context(), 0); err != nil || len(none) != 0 {
		t.Errorf("no entries requested: %d, %v", len(none), err)
	}
}

// TestChangedNamespaces: an added namespace is in the list, once.
func TestChangedNamespaces(t *testing.T) {
	second := newStore(t, 1<<20, 512) // closed after the target
	r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
	c := r.connect(r.options())
	if _, err := r.sub.AddNamespace(target.NamespaceConfig{Store: second}); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]capsule.NSID{{2}, nil} {
		if ids, err := c.Logs().ChangedNamespaces(t.Context()); err != nil || !slices.Equal(ids, want) {
			t.Errorf("reading %d: %v, %v, want %v", i+1, ids, err, want)
		}
	}
}

// TestANALogOfMany: a long log takes several commands.
func TestANALogOfMany(t *testing.T) {
	var stores []backend.Store
	for range 1020 {
		stores = append(stores, newStore(t, 512, 512))
	}
	r := newRig(t, rigConfig{stores: stores})
	c := r.connect(r.options())
	log, err := c.Logs().ANA(context.Background(), false)
	if err != nil || len(log.Groups) != 1 || len(log.Groups[0].Namespaces) != 1020 {
		t.Fatalf("%+v, %v", log, err)
	}
}

func TestSetProperty(t *testing.T) {
	r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
	c := r.connect(r.options())
	v, err := c.Properties().Get(t.Context(), capsule.PropertyCC)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Properties().Set(t.Context(), capsule.PropertyCC, v); err != nil {
		t.Errorf("setting CC to what it is: %v", err)
	}
	if err := c.Properties().Set(t.Context(), capsule.PropertyCSTS, 0); err == nil {
		t.Error("CSTS can be written")
	}
}
