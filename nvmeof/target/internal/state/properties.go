package state

import "github.com/nvmeof-go/nvmeof/capsule"

// Entry sizes of NVM I/O queues as powers of two: 64 and 16 bytes.
const (
	SQEntryShift = 6
	CQEntryShift = 4
)

// readyTimeout is CAP.TO and CRTO in units of 500 ms. CSTS.RDY is set at once.
const readyTimeout = 15

// Version is reported by property VS and Identify unless another is configured.
var Version = capsule.MakeVersion(2, 0, 0)

// A Transition is what the controller has to do after a write to CC.
type Transition uint8

const (
	TransitionNone     Transition = iota
	TransitionEnable              // CC.EN 0 to 1: the controller is ready
	TransitionReset               // CC.EN 1 to 0: I/O queues end
	TransitionShutdown            // CC.SHN: I/O queues end, caches are flushed, then SHST reports it
)

// Properties has a controller's properties (NVMe base 2.0, 3.1.3) and the state machine of CC and CSTS. It belongs
// to the owner of the controller.
type Properties struct {
	cap  capsule.CAP
	CC   capsule.CC
	CSTS capsule.CSTS
	vs   capsule.Version
	io   bool // an I/O controller, for which entry sizes are checked when it is enabled
}

// NewProperties returns the properties of a controller that is not enabled, with queues of at most queueDepth
// entries and version vs; io means an I/O controller.
func NewProperties(queueDepth int, vs capsule.Version, io bool) Properties {
	return Properties{io: io, vs: vs, cap: capsule.CAPFields{
		MQES: uint16(queueDepth - 1),
		CQR:  true,
		TO:   readyTimeout,
		CSS:  capsule.CSSNVM | capsule.CSSMany,
		// Controller Ready With Media, which version 2.0 requires, and Controller Ready Independent of Media, so
		// that hosts read whether each namespace is ready.
		CRMS: 3,
	}.CAP()}
}

// sized reports whether the property exists and has the given size.
func sized(f capsule.Property) bool {
	return f.Size != 0 && f.Size == capsule.PropertyOffset(f.Offset).Size()
}

// Get executes Property Get.
func (p *Properties) Get(f capsule.Property) (uint64, capsule.Status) {
	if !sized(f) {
		return 0, capsule.StatusInvalidField | capsule.StatusDNR
	}
	switch capsule.PropertyOffset(f.Offset) {
	case capsule.PropertyCAP:
		return uint64(p.cap), capsule.StatusSuccess
	case capsule.PropertyVS:
		return uint64(p.vs), capsule.StatusSuccess
	case capsule.PropertyCC:
		return uint64(p.CC), capsule.StatusSuccess
	case capsule.PropertyCSTS:
		return uint64(p.CSTS), capsule.StatusSuccess
	case capsule.PropertyCRTO:
		return uint64(capsule.MakeCRTO(readyTimeout, readyTimeout)), capsule.StatusSuccess
	}
	return 0, capsule.StatusInvalidField | capsule.StatusDNR
}

// Set executes Property Set. Only CC can be written: NSSR would require CAP.NSSRS.
func (p *Properties) Set(f capsule.Property) (Transition, capsule.Status) {
	if !sized(f) || capsule.PropertyOffset(f.Offset) != capsule.PropertyCC {
		return TransitionNone, capsule.StatusInvalidField | capsule.StatusDNR
	}
	return p.configure(capsule.CC(f.Value)), capsule.StatusSuccess
}

// configure applies a new CC. A reset takes precedence over a shutdown in the same write.
func (p *Properties) configure(cc capsule.CC) Transition {
	old := p.CC
	p.CC = cc
	if old.Enable() && !cc.Enable() {
		p.CSTS = 0
		return TransitionReset
	}
	t := TransitionNone
	if !old.Enable() && cc.Enable() {
		p.CSTS = p.CSTS.WithShutdown(capsule.ShutdownNotRequested)
		if !p.valid(cc) {
			p.CSTS |= capsule.CSTSFatal
			return TransitionNone
		}
		p.CSTS |= capsule.CSTSReady
		t = TransitionEnable
	}
	if cc.Shutdown() != capsule.ShutdownNone && old.Shutdown() == capsule.ShutdownNone {
		p.CSTS = p.CSTS.WithShutdown(capsule.ShutdownOccurring)
		return TransitionShutdown
	}
	return t
}

// valid reports whether a controller can be enabled with cc: 4 KiB pages, round robin, the NVM command set or all
// sets, and the entry sizes of NVM queues.
func (p *Properties) valid(cc capsule.CC) bool {
	if cc.MPS() != 0 || cc.AMS() != 0 || cc.CSS() != capsule.CCCSSNVM && cc.CSS() != capsule.CCCSSAll {
		return false
	}
	return !p.io || cc.IOSQES() == SQEntryShift && cc.IOCQES() == CQEntryShift
}

// ShutdownDone completes the shutdown. As in Linux targets, RDY is cleared too.
func (p *Properties) ShutdownDone() {
	p.CSTS = p.CSTS.WithShutdown(capsule.ShutdownComplete) &^ capsule.CSTSReady
}

// Fail sets CSTS.CFS, which only a reset clears.
func (p *Properties) Fail() { p.CSTS |= capsule.CSTSFatal }

// Accepting reports whether commands other than fabrics commands are executed.
func (p *Properties) Accepting() bool {
	return p.CC.Enable() && p.CSTS.Ready() && !p.CSTS.Fatal() && p.CSTS.Shutdown() == capsule.ShutdownNotRequested
}
