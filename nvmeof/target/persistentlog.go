package target

import (
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/life"
)

// maxPersistentLog limits the Persistent Event log of a controller, and so the memory of its context. PELS reports
// it in units of 64 KiB.
const maxPersistentLog = 16 << 10

// maxPersistentPart limits how many events of each part of the target's log are examined: a host may read the log
// as often as it likes, and its shard has other work.
const maxPersistentPart = 256

func persistentLogLength(*Controller) uint64 { return maxPersistentLog }

// persistentLog returns the Persistent Event log (NVMe base 2.0, 5.16.1.14). What a host reads in parts is the log
// as it was when the host established the context.
func persistentLog(c *Controller, f capsule.GetLogPage) ([]byte, capsule.Status) {
	const wrongOrder = capsule.StatusCommandSequence | capsule.StatusDNR
	switch capsule.PersistentAction(f.LSP & 3) {
	case capsule.PersistentRelease: // "the command completes successfully" even without a context
		c.persistent = nil
		return make([]byte, maxPersistentLog), capsule.StatusSuccess
	case capsule.PersistentRead:
		if c.persistent == nil {
			return nil, wrongOrder
		}
		return c.persistent, capsule.StatusSuccess
	case capsule.PersistentHeader:
		if c.persistent != nil {
			return nil, wrongOrder
		}
		c.persistent = persistentEvents(c)
		return c.persistent[:capsule.PersistentHeaderSize], capsule.StatusSuccess
	}
	if c.persistent != nil {
		return nil, wrongOrder
	}
	c.persistent = persistentEvents(c)
	return c.persistent, capsule.StatusSuccess
}

// persistentEvents returns the log with the newest events that fit: those of the subsystem, of the namespaces that
// the host sees, and of the host itself.
func persistentEvents(c *Controller) []byte {
	var smart [capsule.SMARTLogSize]byte
	health := c.smart(slices.Collect(c.view.All))
	health.Encode(smart[:])
	now := uint64(time.Now().UnixMilli())
	b := make([]byte, capsule.PersistentHeaderSize, maxPersistentLog)
	head := capsule.PersistentLog{Timestamp: now, PowerOnHours: uint64(c.subsystem.life.on() / time.Hour), PowerCycles: c.subsystem.life.begun.Load().cycles,
		SubNQN:    capsule.MakeNQNField(string(c.subsystem.nqn)),
		Supported: []capsule.PersistentType{capsule.PersistentSMART, capsule.PersistentPowerOn, capsule.PersistentChangeNamespace, capsule.PersistentVendor}}
	capsule.PutText(head.SN[:], c.traits.serial)
	capsule.PutText(head.MN[:], c.traits.model)
	snapshot := capsule.PersistentEvent{Type: capsule.PersistentSMART, CNTLID: c.id, Timestamp: now, PortID: uint16(c.listener.port.id), Data: smart[:]}
	b, head.Events = snapshot.Append(b), 1
	for p := range persistentHistory(c) { // the newest first (5.16.1.14)
		if len(b)+capsule.PersistentEventHeaderSize+len(p.Data) > maxPersistentLog {
			break
		}
		b, head.Events = p.Append(b), head.Events+1
	}
	for len(b)%4 != 0 { // hosts read dwords
		b = append(b, 0)
	}
	head.Length = uint64(len(b))
	head.Encode(b)
	return b
}

// persistentHistory yields the host's events, the newest first. Power cycles come from the subsystem's record,
// which has their numbers: the target's own log does not have them, and may be older than the subsystem, or lost.
func persistentHistory(c *Controller) iter.Seq[capsule.PersistentEvent] {
	return func(yield func(capsule.PersistentEvent) bool) {
		event := func(t capsule.PersistentType, millis int64, data []byte) bool {
			return yield(capsule.PersistentEvent{Type: t, CNTLID: c.id, Timestamp: uint64(millis), PortID: uint16(c.listener.port.id), Data: data})
		}
		cycles := c.subsystem.life.begun.Load().last
		starts := func(after int64) bool {
			for n := len(cycles) - 1; n >= 0 && cycles[n].At > after; n-- {
				if !event(capsule.PersistentPowerOn, cycles[n].At, powerOnData(c, cycles[n])) {
					return false
				}
				cycles = cycles[:n]
			}
			return true
		}
		for _, e := range c.target.cfg.Events.Newest(maxPersistentPart) {
			t, data := persistentEvent(c, &e)
			at := e.Time.UnixMilli()
			if data != nil && (!starts(at) || !event(t, at, data)) {
				return
			}
		}
		starts(math.MinInt64)
	}
}

// powerOnData encodes a start of the target, which is a power cycle of the subsystem (NVMe base 2.0, 5.16.1.14:
// Power-on or Reset Event).
func powerOnData(c *Controller, cycle life.Cycle) []byte {
	return capsule.PersistentPowerOnData(cycle.Firmware, c.id, uint32(cycle.Number), uint64(cycle.At))
}

// Texts by which the log recognizes events.
const (
	textAdded   = "namespace added"
	textRemoved = "namespace removed"
)

// persistentEvent returns an event in the form of the specification, or a vendor specific one; nil if it does not
// concern the host. Hosts without a name are not treated as one host. Of a text, hosts get the part before a colon
// or semicolon, which says what happened. The rest, such as the reason, is for administrators, and may name other
// hosts, whose names may be the only secret that protects them.
func persistentEvent(c *Controller, e *events.Event) (capsule.PersistentType, []byte) {
	ours := e.Subsystem == string(c.subsystem.nqn)
	switch {
	case !ours || e.NSID != 0 && !c.view.Rights.Load().See(capsule.NSID(e.NSID)):
	case e.Kind == events.Namespace && (e.Text == textRemoved || strings.HasPrefix(e.Text, textAdded)):
		var blocks uint64
		group := capsule.ANAGroup(0)
		if ns := c.subsystem.table().Get(capsule.NSID(e.NSID)); ns != nil && e.Text != textRemoved {
			blocks, group = ns.Volume.Blocks(), ns.Shown()
		}
		return capsule.PersistentChangeNamespace, capsule.PersistentNamespaceData(capsule.NSID(e.NSID), group, blocks, e.Text == textRemoved)
	case e.Host != "" && e.Host == string(c.hostNQN):
		what := e.Text
		if end := strings.IndexAny(what, ":;"); end >= 0 {
			what = what[:end]
		}
		return capsule.PersistentVendor, capsule.PersistentText(1, string(e.Kind)+": "+what)
	}
	return 0, nil
}
