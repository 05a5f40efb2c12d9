package target

import (
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// maxErrors is how many entries the error log keeps; ELPE is one less.
const maxErrors = 64

// Temperatures in kelvins: software has none, so it reports a cool one.
const (
	temperature         = 273 + 25
	warningTemperature  = 273 + 80
	criticalTemperature = 273 + 90
)

// A logHandler returns the whole page as it is now. It is as long as the page
// is, whatever length the host asked for.
type logHandler func(c *Controller, f capsule.GetLogPage) []byte

type logRow struct {
	page logHandler
	// window, in place of page, fills b from an offset of a page that is too long
	// to be made whole, and returns the page's length.
	window func(c *Controller, offset uint64, b []byte) (length uint64)

	io   bool // I/O controllers have it
	disc bool // discovery controllers have it
}

func logTable() [256]logRow {
	return [256]logRow{
		capsule.LogSupportedPages:    {page: (*Controller).supportedLog, io: true, disc: true},
		capsule.LogError:             {page: (*Controller).errorLog, io: true, disc: true},
		capsule.LogSMART:             {page: (*Controller).smartLog, io: true},
		capsule.LogFirmwareSlot:      {page: (*Controller).firmwareLog, io: true},
		capsule.LogChangedNamespaces: {page: (*Controller).changedLog, io: true},
		capsule.LogEffects:           {page: (*Controller).effectsLog, io: true},
		capsule.LogANA:               {page: (*Controller).anaLog, io: true},
		capsule.LogDiscovery:         {window: (*Controller).discoveryLog, disc: true},
	}
}

// getLogPage copies the window that the host asked for. Nothing is allocated by
// its length: that is r.data's, which the data rules bounded.
func getLogPage(c *Controller, r *request) capsule.Status {
	f := r.cmd.GetLogPage()
	row := c.target.logs[f.LID]
	switch {
	case row.page == nil && row.window == nil, c.discovery() && !row.disc, !c.discovery() && !row.io:
		return capsule.StatusInvalidLogPage | capsule.StatusDNR
	case r.cmd.NSID != 0 && r.cmd.NSID != capsule.NSIDBroadcast:
		return invalidField // all pages are the controller's
	case f.OT || f.UUID != 0 || f.LPO%4 != 0:
		return invalidField
	}
	if row.window != nil {
		if length := row.window(c, f.LPO, r.data); f.LPO > length {
			return invalidField
		}
	} else {
		page := row.page(c, f)
		if f.LPO > uint64(len(page)) {
			return invalidField
		}
		copy(r.data, page[f.LPO:])
	}
	if !f.RAE {
		c.logRead(f.LID)
	}
	return capsule.StatusSuccess
}

// logRead re-arms the events of a page that was read.
func (c *Controller) logRead(lid capsule.LID) {
	c.events.read(lid)
	if lid == capsule.LogChangedNamespaces {
		c.changed.clear()
	}
}

func (c *Controller) supportedLog(capsule.GetLogPage) []byte {
	b := make([]byte, 4*256)
	for lid, row := range c.target.logs {
		if c.discovery() && row.disc || !c.discovery() && row.io {
			b[4*lid] = 1 // LSUPP
		}
	}
	return b
}

// errorRing keeps the last errors of a controller. Queues on several shards add
// to it, none of them in the steady state.
type errorRing struct {
	mu      sync.Mutex
	count   uint64
	entries [maxErrors]capsule.ErrorLogEntry
}

func (l *errorRing) add(e capsule.ErrorLogEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	e.Count = l.count
	l.entries[l.count%maxErrors] = e
}

func (l *errorRing) total() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// encode fills b, newest first.
func (l *errorRing) encode(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range uint64(maxErrors) {
		if i >= l.count {
			break
		}
		l.entries[(l.count-i)%maxErrors].Encode(b[capsule.ErrorLogEntrySize*i:])
	}
}

func (c *Controller) errorLog(capsule.GetLogPage) []byte {
	b := make([]byte, capsule.ErrorLogEntrySize*maxErrors)
	c.errors.encode(b)
	return b
}

// smartLog sums what all shards did for the subsystem's namespaces.
func (c *Controller) smartLog(capsule.GetLogPage) []byte {
	var n counts
	for _, ns := range c.subsystem.table() {
		if ns != nil {
			n.add(ns)
		}
	}
	s := capsule.SMARTLog{
		Temperature: temperature, AvailableSpare: 100, SpareThreshold: 10,
		DataUnitsRead:    capsule.Uint128{Lo: dataUnits(n.readBytes)},
		DataUnitsWritten: capsule.Uint128{Lo: dataUnits(n.writeBytes)},
		HostReads:        capsule.Uint128{Lo: n.reads},
		HostWrites:       capsule.Uint128{Lo: n.writes},
		PowerCycles:      capsule.Uint128{Lo: 1},
		PowerOnHours:     capsule.Uint128{Lo: uint64(time.Since(c.target.started) / time.Hour)},
		MediaErrors:      capsule.Uint128{Lo: n.mediaErrors},
		ErrorLogEntries:  capsule.Uint128{Lo: c.errors.total()},
	}
	if n.failed {
		s.CriticalWarning |= capsule.WarningReliability
	}
	b := make([]byte, capsule.SMARTLogSize)
	s.Encode(b)
	return b
}

// dataUnits converts bytes to thousands of 512 byte units, rounded up.
func dataUnits(bytes uint64) uint64 { return (bytes + 512000 - 1) / 512000 }

func (c *Controller) firmwareLog(capsule.GetLogPage) []byte {
	f := capsule.FirmwareLog{AFI: 1}
	capsule.PutText(f.FRS[0][:], c.target.cfg.Firmware)
	b := make([]byte, capsule.FirmwareLogSize)
	f.Encode(b)
	return b
}

func (c *Controller) changedLog(capsule.GetLogPage) []byte {
	b := make([]byte, capsule.NamespaceListSize)
	c.changed.encode(b)
	return b
}

// effectsLog is read off the dispatch tables, so that it cannot differ from
// what is executed.
func (c *Controller) effectsLog(capsule.GetLogPage) []byte {
	b := make([]byte, capsule.EffectsLogSize)
	for op, row := range c.target.admin {
		if row.run != nil && row.io {
			capsule.PutAdminEffects(b, capsule.AdminOpcode(op), capsule.EffectSupported)
		}
	}
	for op, row := range c.target.io {
		if row.start != nil {
			capsule.PutIOEffects(b, capsule.IOOpcode(op), capsule.EffectSupported|row.effects)
		}
	}
	return b
}
