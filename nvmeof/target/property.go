package target

import "github.com/nvmeof-go/nvmeof/capsule"

// Entry sizes of NVM I/O queues, exponents of 2: 64 and 16 bytes.
const (
	sqEntryShift = 6
	cqEntryShift = 4
)

// readyTimeout is CAP.TO and CRTO in units of 500 ms. CSTS.RDY follows at once.
const readyTimeout = 15

// specVersion is what property VS and Identify report.
var specVersion = capsule.MakeVersion(2, 0, 0)

// A transition is what a write to CC asks of the controller's owner.
type transition uint8

const (
	transitionNone     transition = iota
	transitionEnable              // CC.EN 0 to 1: the controller is ready
	transitionReset               // CC.EN 1 to 0: I/O queues go
	transitionShutdown            // CC.SHN: I/O queues go, caches are flushed, then SHST tells
)

// properties are a controller's registers (NVMe base 2.0, 3.1.3) and the state
// machine of CC and CSTS. It has no owner of its own: the controller's does.
type properties struct {
	cap  capsule.CAP
	cc   capsule.CC
	csts capsule.CSTS
	io   bool // an I/O controller, which checks entry sizes when enabled
}

func newProperties(queueDepth int, io bool) properties {
	return properties{io: io, cap: capsule.CAPFields{
		MQES: uint16(queueDepth - 1),
		CQR:  true,
		TO:   readyTimeout,
		CSS:  capsule.CSSNVM | capsule.CSSMany,
		CRMS: 1, // ready with media, as version 2.0 requires one to say
	}.CAP()}
}

// sized reports whether the property exists with the size asked for.
func sized(f capsule.Property) bool {
	return f.Size != 0 && f.Size == capsule.PropertyOffset(f.Offset).Size()
}

// get answers Property Get.
func (p *properties) get(f capsule.Property) (uint64, capsule.Status) {
	if !sized(f) {
		return 0, capsule.StatusInvalidField | capsule.StatusDNR
	}
	switch capsule.PropertyOffset(f.Offset) {
	case capsule.PropertyCAP:
		return uint64(p.cap), capsule.StatusSuccess
	case capsule.PropertyVS:
		return uint64(specVersion), capsule.StatusSuccess
	case capsule.PropertyCC:
		return uint64(p.cc), capsule.StatusSuccess
	case capsule.PropertyCSTS:
		return uint64(p.csts), capsule.StatusSuccess
	case capsule.PropertyCRTO:
		return uint64(capsule.MakeCRTO(readyTimeout, 0)), capsule.StatusSuccess
	}
	return 0, capsule.StatusInvalidField | capsule.StatusDNR
}

// set answers Property Set, of which only CC can be written: NSSR would need
// CAP.NSSRS.
func (p *properties) set(f capsule.Property) (transition, capsule.Status) {
	if !sized(f) || capsule.PropertyOffset(f.Offset) != capsule.PropertyCC {
		return transitionNone, capsule.StatusInvalidField | capsule.StatusDNR
	}
	return p.configure(capsule.CC(f.Value)), capsule.StatusSuccess
}

// configure applies a new CC. A reset wins over a shutdown asked for together.
func (p *properties) configure(cc capsule.CC) transition {
	old := p.cc
	p.cc = cc
	if old.Enable() && !cc.Enable() {
		p.csts = 0
		return transitionReset
	}
	t := transitionNone
	if !old.Enable() && cc.Enable() {
		p.csts = p.csts.WithShutdown(capsule.ShutdownNotRequested)
		if !p.valid(cc) {
			p.csts |= capsule.CSTSFatal
			return transitionNone
		}
		p.csts |= capsule.CSTSReady
		t = transitionEnable
	}
	if cc.Shutdown() != capsule.ShutdownNone && old.Shutdown() == capsule.ShutdownNone {
		p.csts = p.csts.WithShutdown(capsule.ShutdownOccurring)
		return transitionShutdown
	}
	return t
}

// valid reports whether a controller can be enabled with cc: 4 KiB pages, round
// robin, the NVM command set or all sets, and the entry sizes of NVM queues.
func (p *properties) valid(cc capsule.CC) bool {
	if cc.MPS() != 0 || cc.AMS() != 0 || cc.CSS() != capsule.CCCSSNVM && cc.CSS() != capsule.CCCSSAll {
		return false
	}
	return !p.io || cc.IOSQES() == sqEntryShift && cc.IOCQES() == cqEntryShift
}

// shutdownDone ends what transitionShutdown began. As Linux targets do, RDY
// goes with it.
func (p *properties) shutdownDone() {
	p.csts = p.csts.WithShutdown(capsule.ShutdownComplete) &^ capsule.CSTSReady
}

// fail sets CSTS.CFS: only a reset helps.
func (p *properties) fail() { p.csts |= capsule.CSTSFatal }

// accepting reports whether commands other than fabrics ones are executed.
func (p *properties) accepting() bool {
	return p.cc.Enable() && p.csts.Ready() && !p.csts.Fatal() && p.csts.Shutdown() == capsule.ShutdownNotRequested
}
