package target

import (
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// maxPersistentLog bounds the Persistent Event log of a controller, and so the memory of its
// context. PELS says it in units of 64 KiB.
const maxPersistentLog = 16 << 10

// maxPersistentPart is how many events of each part of the target's log are looked at: a host may
// ask as often as it likes, and its shard has other work.
const maxPersistentPart = 256

func persistentLogLength(*Controller) uint64 { return maxPersistentLog }

// persistentLog is the Persistent Event log (NVMe base 2.0, 5.16.1.14): what a host reads in parts
// is what was there when it established the context.
func persistentLog(c *Controller, f capsule.GetLogPage) ([]byte, capsule.Status) {
	const wrongOrder = capsule.StatusCommandSequence | capsule.StatusDNR
	switch capsule.PersistentAction(f.LSP & 3) {
	case capsule.PersistentRelease: // "the command completes successfully" without a context too
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

// persistentEvents is the log with the newest events that there is room for: what concerns the
// subsystem, the namespaces that the host sees, and the host itself.
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
	all := c.target.cfg.Events.Newest(maxPersistentPart)
	for i := range all { // the newest first (5.16.1.14)
		p := capsule.PersistentEvent{CNTLID: c.id, Timestamp: uint64(all[i].Time.UnixMilli()), PortID: uint16(c.listener.port.id)}
		if p.Type, p.Data = persistentEvent(c, &all[i], head.PowerCycles); p.Data == nil {
			continue
		}
		if len(b)+capsule.PersistentEventHeaderSize+len(p.Data) > maxPersistentLog {
			break
		}
		b, head.Events = p.Append(b), head.Events+1
	}
	for len(b)%4 != 0 { // a host reads dwords
		b = append(b, 0)
	}
	head.Length = uint64(len(b))
	head.Encode(b)
	return b
}

// Texts by which the log recognises events.
const (
	textAdded   = "namespace added"
	textRemoved = "namespace removed"
)

// persistentEvent is an event in the form of the specification, or a vendor specific one; nil: it
// is not the host's business.
func persistentEvent(c *Controller, e *events.Event, cycles uint64) (capsule.PersistentType, []byte) {
	ours := e.Subsystem == string(c.subsystem.nqn)
	switch {
	case e.Kind == events.Start:
		return capsule.PersistentPowerOn, capsule.PersistentPowerOnData(c.target.cfg.Firmware, c.id, uint32(cycles), uint64(e.Time.UnixMilli()))
	case !ours || e.NSID != 0 && !c.view.Rights.Load().See(capsule.NSID(e.NSID)):
	case e.Kind == events.Namespace && (e.Text == textRemoved || strings.HasPrefix(e.Text, textAdded)):
		var blocks uint64
		group := capsule.ANAGroup(0)
		if ns := c.subsystem.table().Get(capsule.NSID(e.NSID)); ns != nil && e.Text != textRemoved {
			blocks, group = ns.Volume.Blocks(), ns.Shown()
		}
		return capsule.PersistentChangeNamespace, capsule.PersistentNamespaceData(capsule.NSID(e.NSID), group, blocks, e.Text == textRemoved)
	case e.Host == string(c.hostNQN):
		return capsule.PersistentVendor, capsule.PersistentText(1, string(e.Kind)+": "+e.Text)
	}
	return 0, nil
}
