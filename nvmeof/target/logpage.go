package target

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// maxErrors is how many entries the error log keeps. The ELPE field is one less.
const maxErrors = 64

// A logHandler returns the whole page, whatever length the host requests.
type logHandler func(c *Controller, f capsule.GetLogPage) []byte

type logRow struct {
	page logHandler
	// window is used instead of page for pages that are too long to be allocated: it fills b from an offset, and
	// returns the page's length.
	window func(c *Controller, offset uint64, b []byte) (length uint64)
	// about is used instead of page for pages of the namespace that the command names, or of all namespaces that
	// the host sees.
	about func(c *Controller, list []*storage.Namespace) []byte
	// context is used instead of page for pages whose contents an earlier command has fixed.
	context func(c *Controller, f capsule.GetLogPage) ([]byte, capsule.Status)
	// length returns the current length of the page, if it may exceed maxFixedLog.
	length func(c *Controller) uint64

	io   bool // I/O controllers have it
	disc bool // discovery controllers have it
}

func logTable() [256]logRow {
	return [256]logRow{
		capsule.LogSupportedPages:    {page: (*Controller).supportedLog, io: true, disc: true},
		capsule.LogError:             {page: (*Controller).errorLog, io: true, disc: true},
		capsule.LogSMART:             {about: (*Controller).smartLog, io: true},
		capsule.LogFirmwareSlot:      {page: (*Controller).firmwareLog, io: true},
		capsule.LogChangedNamespaces: {page: (*Controller).changedLog, io: true},
		capsule.LogEffects:           {page: (*Controller).effectsLog, io: true, disc: true},
		capsule.LogANA:               {page: (*Controller).anaLog, length: anaLogLength, io: true},
		capsule.LogFIDEffects:        {page: (*Controller).featuresLog, io: true, disc: true},
		capsule.LogMIEffects:         {page: managementLog, io: true, disc: true},
		capsule.LogPersistentEvent:   {context: persistentLog, length: persistentLogLength, io: true},
		capsule.LogDiscovery:         {window: (*Controller).discoveryLog, length: discoveryLogLength, disc: true},
		capsule.LogReservation:       {page: (*Controller).reservationLog, io: true},
	}
}

// maxFixedLog is the maximum length of the pages without a length function.
const maxFixedLog = 4096

// logHolds returns how many bytes of the requested data the page can fill. A host may request a mebibyte of a page
// of a hundred bytes, many times: it gets zeroes, for which no buffers are used.
func logHolds(c *Controller, cmd *capsule.Command) uint64 {
	f := cmd.GetLogPage()
	if f.Length <= maxFixedLog {
		return f.Length
	}
	length := uint64(maxFixedLog)
	if row := &c.target.logs[f.LID]; row.length != nil {
		length = row.length(c)
	}
	return max(length, f.LPO) - f.LPO
}

// getLogPage copies the requested part of the page to r.data, whose length sizeRule has limited. No memory of the
// requested length is allocated.
func getLogPage(c *Controller, r *request) capsule.Status {
	f := r.cmd.GetLogPage()
	row := &c.target.logs[f.LID]
	switch {
	case !row.exists(), c.discovery() && !row.disc, !c.discovery() && !row.io:
		return capsule.StatusInvalidLogPage | capsule.StatusDNR
	case f.LPO%4 != 0:
		return r.invalid(12, 0)
	case f.UUID != 0:
		return r.invalid(14, 0)
	case f.OT:
		return r.invalid(14, 23)
	}
	if status := row.fill(c, r, f); !status.OK() {
		return status
	}
	if !f.RAE {
		c.logRead(f.LID)
	}
	return capsule.StatusSuccess
}

func (row *logRow) exists() bool {
	return row.page != nil || row.window != nil || row.about != nil || row.context != nil
}

// fill copies the requested part of the page.
func (row *logRow) fill(c *Controller, r *request, f capsule.GetLogPage) capsule.Status {
	var page []byte
	one := r.cmd.NSID != 0 && r.cmd.NSID != capsule.NSIDBroadcast
	switch {
	case one && row.about == nil:
		return r.invalid(1, 0) // the page belongs to the controller
	case one:
		ns, status := c.view.Have(r.cmd.NSID)
		if ns == nil {
			return status
		}
		page = row.about(c, []*storage.Namespace{ns})
	case row.about != nil:
		list := slices.Collect(c.view.All)
		r.link.Charge(len(list) * healthCost)
		page = row.about(c, list)
	case row.window != nil:
		length := row.window(c, f.LPO, r.data)
		if f.LPO > length {
			return r.invalid(12, 0)
		}
		if want := min(length-f.LPO, f.Length); want > uint64(len(r.data)) {
			r.buffer.Release() // the page has become longer
			r.buffer = shard.Buffer{}
			r.wantBufferOf(int(want))
			return statusAgain
		}
		return capsule.StatusSuccess
	case row.context != nil:
		var status capsule.Status
		had := c.persistent != nil
		if page, status = row.context(c, f); !status.OK() {
			return status
		}
		if !had && c.persistent != nil { // it was created, with the health of all namespaces
			r.chargeAll(healthCost)
		}
	default:
		if row.length != nil { // whose length grows with the number of namespaces
			r.chargeAll(lookCost)
		}
		page = row.page(c, f)
	}
	if f.LPO > uint64(len(page)) {
		return r.invalid(12, 0)
	}
	copy(r.data, page[f.LPO:])
	return capsule.StatusSuccess
}

// logRead re-enables the events of a page that was read.
func (c *Controller) logRead(lid capsule.LID) {
	c.events.Read(lid)
	if lid == capsule.LogChangedNamespaces {
		c.changed.Clear()
	}
	if lid == capsule.LogReservation {
		c.reservationLogRead()
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

// An errorRing has the most recent errors of a controller. Queues on several shards add to it, for failed commands
// only.
type errorRing struct {
	mu      sync.Mutex
	count   uint64
	entries [maxErrors]capsule.ErrorLogEntry
}

func (l *errorRing) add(e capsule.ErrorLogEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.entries[l.count%maxErrors] = e
}

// export returns the count of all entries, and the entries that are kept.
func (l *errorRing) export() (uint64, []capsule.ErrorLogEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count, slices.Clone(l.entries[:])
}

// restore sets the result of export.
func (l *errorRing) restore(count uint64, entries []capsule.ErrorLogEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count = count
	copy(l.entries[:], entries)
}

// encode fills b, the newest entry first.
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

func (c *Controller) firmwareLog(capsule.GetLogPage) []byte {
	f := capsule.FirmwareLog{AFI: 1}
	capsule.PutText(f.FRS[0][:], c.target.cfg.Firmware)
	b := make([]byte, capsule.FirmwareLogSize)
	f.Encode(b)
	return b
}

func (c *Controller) changedLog(capsule.GetLogPage) []byte {
	b := make([]byte, capsule.NamespaceListSize)
	c.changed.Encode(b)
	return b
}

// effectsLog is derived from the dispatch tables, so that it agrees with what is executed. It reports the I/O
// commands of the set that CSI selects, which is reserved unless CC selects all sets (NVMe base 2.0, 5.16.1.6).
// Sets other than NVM have no commands. An error would end nvme-cli, which reads the log of the zoned set whenever
// CAP reports that sets can be selected.
func (c *Controller) effectsLog(f capsule.GetLogPage) []byte {
	other := f.CSI != capsule.CSINVM && c.props.CC.CSS() == capsule.CCCSSAll
	b := make([]byte, capsule.EffectsLogSize)
	for op, row := range c.target.admin {
		if row.run != nil && (row.io && !c.discovery() || row.disc && c.discovery()) {
			capsule.PutAdminEffects(b, capsule.AdminOpcode(op), capsule.EffectSupported)
		}
	}
	for op, row := range c.target.io {
		if row.start != nil && !c.discovery() && !other {
			capsule.PutIOEffects(b, capsule.IOOpcode(op), capsule.EffectSupported|row.effects)
		}
	}
	return b
}

// featuresLog is derived from the table of features.
func (c *Controller) featuresLog(capsule.GetLogPage) []byte {
	b := make([]byte, 4*256)
	for id := range c.target.features {
		if f := c.feature(capsule.FID(id)); f != nil {
			binary.LittleEndian.PutUint32(b[4*id:], uint32(capsule.FIDSupported|f.effects()))
		}
	}
	return b
}

// managementLog is empty: no NVMe-MI command is supported.
func managementLog(*Controller, capsule.GetLogPage) []byte { return make([]byte, 4*256) }

// maxANALog is the maximum length of the page. Hosts compute it from NANAGRPID and MNAN, and some read all of it,
// in parts, however long it is.
const maxANALog = capsule.ANALogHeaderSize + ana.Away*capsule.ANADescriptorHeader + storage.MaxNamespace*4

func anaLogLength(*Controller) uint64 { return maxANALog }

// anaLog reports the groups of the namespaces that the host sees, followed by zeroes up to the maximum length.
func (c *Controller) anaLog(f capsule.GetLogPage) []byte {
	regroups := c.subsystem.groupChanges()
	b := ana.Log(c.listener.ana.Load(), &regroups, c.view.Members(), f.LSP&capsule.ANALogGroupsOnly != 0)
	return append(b, make([]byte, maxANALog-len(b))...)
}
