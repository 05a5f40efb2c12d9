package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Logs are the log pages of a controller, with the command Get Log Page (NVMe base 2.0,
// 5.16). To read a page re-arms the event that belongs to it.
type Logs struct{ controller *Controller }

// Logs are the controller's log pages.
func (c *Controller) Logs() Logs { return Logs{c} }

// Read reads len(b) bytes, a multiple of 4, of a log page from offset g.LPO, in as
// many commands as that takes. g.Length is not used. Events that belong to the page
// are re-armed by the last command, or not at all with g.RAE.
func (ls Logs) Read(ctx context.Context, id capsule.NSID, g capsule.GetLogPage, b []byte) error {
	step, start, retain := min(ls.controller.limits.Write, logChunk), g.LPO, g.RAE
	for done := 0; done < len(b); done += step {
		part := b[done:min(done+step, len(b))]
		cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminGetLogPage), NSID: id}
		g.Length, g.LPO = uint64(len(part)), start+uint64(done)
		g.RAE = retain || done+step < len(b)
		g.Put(&cmd)
		if _, err := ls.controller.Admin(ctx, cmd, part); err != nil {
			return err
		}
	}
	return nil
}

// logChunk is how much of a log is read at a time: what any controller gives.
const logChunk = 4096

// readLog reads a page of a fixed size and decodes it.
func readLog[T any](ctx context.Context, ls Logs, id capsule.NSID, g capsule.GetLogPage, size int, decode func([]byte) (T, error)) (T, error) {
	b := make([]byte, size)
	if err := ls.Read(ctx, id, g, b); err != nil {
		var none T
		return none, err
	}
	return decode(b)
}

// SMART reads the health of the controller, for which the NSID is
// [capsule.NSIDBroadcast], or of a namespace, where the controller keeps that.
func (ls Logs) SMART(ctx context.Context, id capsule.NSID) (capsule.SMARTLog, error) {
	return readLog(ctx, ls, id, capsule.GetLogPage{LID: capsule.LogSMART}, capsule.SMARTLogSize, capsule.DecodeSMARTLog)
}

// ErrorEntries is how many entries the controller's error log has.
func (ls Logs) ErrorEntries() int { return int(ls.controller.identify.ELPE) + 1 }

// Errors reads the newest n errors at most, the newest first. Unused entries have
// count 0.
func (ls Logs) Errors(ctx context.Context, n int) ([]capsule.ErrorLogEntry, error) {
	n = max(0, min(n, ls.ErrorEntries()))
	return readLog(ctx, ls, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogError}, n*capsule.ErrorLogEntrySize, decodeErrors)
}

func decodeErrors(b []byte) (entries []capsule.ErrorLogEntry, err error) {
	for ; len(b) > 0; b = b[capsule.ErrorLogEntrySize:] {
		e, err := capsule.DecodeErrorLogEntry(b)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Firmware reads which firmware the slots have.
func (ls Logs) Firmware(ctx context.Context) (capsule.FirmwareLog, error) {
	return readLog(ctx, ls, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogFirmwareSlot}, capsule.FirmwareLogSize, capsule.DecodeFirmwareLog)
}

// Effects reads which commands of an I/O command set there are, and what they do.
func (ls Logs) Effects(ctx context.Context, csi capsule.CSI) (capsule.EffectsLog, error) {
	return readLog(ctx, ls, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogEffects, CSI: csi}, capsule.EffectsLogSize, capsule.DecodeEffectsLog)
}

// SupportedPages reads which log pages there are.
func (ls Logs) SupportedPages(ctx context.Context) (capsule.SupportedLog, error) {
	return readLog(ctx, ls, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogSupportedPages}, capsule.SupportedLogSize, capsule.DecodeSupportedLog)
}

// FeatureEffects reads which features there are, and what setting them does.
func (ls Logs) FeatureEffects(ctx context.Context) (capsule.FIDEffectsLog, error) {
	return readLog(ctx, ls, 0, capsule.GetLogPage{LID: capsule.LogFIDEffects}, capsule.FIDEffectsSize, capsule.DecodeFIDEffectsLog)
}

// MIEffects reads which commands of NVMe-MI there are, and what they do.
func (ls Logs) MIEffects(ctx context.Context) (capsule.MIEffectsLog, error) {
	return readLog(ctx, ls, 0, capsule.GetLogPage{LID: capsule.LogMIEffects}, capsule.MIEffectsSize, capsule.DecodeMIEffectsLog)
}

// ChangedNamespaces reads which namespaces changed since it was last read; that is
// [capsule.NSIDBroadcast] alone where they were too many. It re-arms the event.
func (ls Logs) ChangedNamespaces(ctx context.Context) ([]capsule.NSID, error) {
	return readLog(ctx, ls, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogChangedNamespaces}, capsule.NamespaceListSize, decodeNamespaceList)
}

func decodeNamespaceList(b []byte) (ids []capsule.NSID, err error) {
	for {
		id := capsule.NSIDAt(b, len(ids))
		if id == 0 {
			return ids, nil
		}
		ids = append(ids, id)
	}
}

// ReservationNotification takes the oldest notification about reservations off the
// controller's list; its count is 0 where there is none.
func (ls Logs) ReservationNotification(ctx context.Context) (capsule.ReservationLog, error) {
	return readLog(ctx, ls, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogReservation}, capsule.ReservationLogSize, capsule.DecodeReservationLog)
}

// maxANANamespaces bounds what a controller may make us allocate for its ANA log.
const maxANANamespaces = 1 << 20

// ANA reads the state of the groups, without their namespaces with groupsOnly,
// again when it changes meanwhile. It re-arms the event.
func (ls Logs) ANA(ctx context.Context, groupsOnly bool) (log capsule.ANALog, err error) {
	g := capsule.GetLogPage{LID: capsule.LogANA}
	if groupsOnly {
		g.LSP = capsule.ANALogGroupsOnly
	}
	for range maxDiscoveryAttempts {
		log, several, err := ls.anaLog(ctx, g)
		if err != nil || !several {
			return log, err
		}
		// Read in several commands: was it one log?
		after, err := readLog(ctx, ls, 0, g, capsule.ANALogHeaderSize, capsule.DecodeANALogHeader)
		if err != nil || after.CHGCNT == log.ChangeCount {
			return log, err
		}
	}
	return log, fmt.Errorf("ANA log changed during each of %d attempts to read it", maxDiscoveryAttempts)
}

// anaLog reads as much as the log turns out to have, since controllers need not
// answer for what is beyond its end.
func (ls Logs) anaLog(ctx context.Context, g capsule.GetLogPage) (log capsule.ANALog, several bool, err error) {
	var b []byte
	var known anaExtent
	for limit := ls.anaLogLimit(); len(b) < limit; {
		part := make([]byte, min(logChunk, limit-len(b)))
		g.LPO = uint64(len(b))
		if err := ls.Read(ctx, 0, g, part); err != nil {
			return log, false, err
		}
		several, b = len(b) > 0, append(b, part...)
		if known.grow(b); known.end > limit {
			break
		}
		if known.groups == 0 && known.end <= len(b) {
			log, err = capsule.ParseANALog(b)
			return log, several, err
		}
	}
	return log, several, errors.New("ANA log is longer than the controller's numbers of groups and namespaces allow")
}

// An anaExtent is how far an ANA log reaches, as its beginning says. Each descriptor is
// looked at once, however small the parts are in which the log comes.
type anaExtent struct {
	end    int // of the descriptors that are known, with their namespaces
	groups int // that follow
}

// grow takes what has been read of the log, from its first byte.
func (e *anaExtent) grow(b []byte) {
	if e.end == 0 {
		h, err := capsule.DecodeANALogHeader(b)
		if err != nil {
			return
		}
		e.end, e.groups = capsule.ANALogHeaderSize, int(h.NGRPS)
	}
	for e.groups > 0 && e.end <= len(b)-capsule.ANADescriptorHeader {
		d, err := capsule.DecodeANADescriptor(b[e.end:])
		if err != nil {
			return
		}
		e.end += capsule.ANADescriptorHeader + 4*int(min(d.NNSIDS, maxANANamespaces+1)) // more is beyond any limit
		e.groups--
	}
}

// anaLogLimit is what the log takes at most, as far as this host goes.
func (ls Logs) anaLogLimit() int {
	id := &ls.controller.identify
	namespaces := id.MNAN
	if namespaces == 0 {
		namespaces = id.NN
	}
	return capsule.ANALogHeaderSize + int(min(id.NANAGRPID, maxANANamespaces))*capsule.ANADescriptorHeader +
		4*int(min(namespaces, maxANANamespaces))
}
