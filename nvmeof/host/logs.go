package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Logs reads the log pages of a controller with the command Get Log Page (NVMe base 2.0, 5.16). Reading a page re-arms
// its event.
type Logs struct{ controller *Controller }

// Logs returns access to the controller's log pages.
func (c *Controller) Logs() Logs { return Logs{c} }

// Read reads len(b) bytes, a multiple of 4, of a log page from offset g.LPO, with as many commands as necessary. It
// ignores g.Length. The last command re-arms the event of the page, unless g.RAE is set.
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

// logChunk is how many bytes of a log one command reads: every controller supports that.
const logChunk = 4096

// readLog reads a log page of a fixed size and decodes it.
func readLog[T any](ctx context.Context, ls Logs, id capsule.NSID, g capsule.GetLogPage, size int, decode func([]byte) (T, error)) (T, error) {
	b := make([]byte, size)
	if err := ls.Read(ctx, id, g, b); err != nil {
		var none T
		return none, err
	}
	return decode(b)
}

// SMART reads the health of the controller, with [capsule.NSIDBroadcast], or of a namespace, if the controller has a
// log for each.
func (ls Logs) SMART(ctx context.Context, id capsule.NSID) (capsule.SMARTLog, error) {
	return readLog(ctx, ls, id, capsule.GetLogPage{LID: capsule.LogSMART}, capsule.SMARTLogSize, capsule.DecodeSMARTLog)
}

// ErrorEntries returns the number of entries of the controller's error log.
func (ls Logs) ErrorEntries() int { return int(ls.controller.identify.ELPE) + 1 }

// Errors reads the newest n entries at most of the error log, newest first. Unused entries have count 0.
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

// Firmware reads the firmware revisions in the slots.
func (ls Logs) Firmware(ctx context.Context) (capsule.FirmwareLog, error) {
	return readLog(ctx, ls, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogFirmwareSlot}, capsule.FirmwareLogSize, capsule.DecodeFirmwareLog)
}

// Effects reads which commands of an I/O command set are supported, and their effects.
func (ls Logs) Effects(ctx context.Context, csi capsule.CSI) (capsule.EffectsLog, error) {
	return readLog(ctx, ls, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogEffects, CSI: csi}, capsule.EffectsLogSize, capsule.DecodeEffectsLog)
}

// SupportedPages reads which log pages are supported.
func (ls Logs) SupportedPages(ctx context.Context) (capsule.SupportedLog, error) {
	return readLog(ctx, ls, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogSupportedPages}, capsule.SupportedLogSize, capsule.DecodeSupportedLog)
}

// FeatureEffects reads which features are supported, and the effects of setting them.
func (ls Logs) FeatureEffects(ctx context.Context) (capsule.FIDEffectsLog, error) {
	return readLog(ctx, ls, 0, capsule.GetLogPage{LID: capsule.LogFIDEffects}, capsule.FIDEffectsSize, capsule.DecodeFIDEffectsLog)
}

// MIEffects reads which commands of NVMe-MI are supported, and their effects.
func (ls Logs) MIEffects(ctx context.Context) (capsule.MIEffectsLog, error) {
	return readLog(ctx, ls, 0, capsule.GetLogPage{LID: capsule.LogMIEffects}, capsule.MIEffectsSize, capsule.DecodeMIEffectsLog)
}

// ChangedNamespaces reads which namespaces have changed since the log was last read; [capsule.NSIDBroadcast] alone
// means that there were too many. It re-arms the event.
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

// ReservationNotification takes the oldest reservation notification from the controller's list; its count is 0 if the
// list is empty.
func (ls Logs) ReservationNotification(ctx context.Context) (capsule.ReservationLog, error) {
	return readLog(ctx, ls, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogReservation}, capsule.ReservationLogSize, capsule.DecodeReservationLog)
}

// maxANANamespaces bounds the memory that a controller can make the host allocate for its ANA log.
const maxANANamespaces = 1 << 20

// ANA reads the states of the ANA groups, without their namespaces if groupsOnly is set. It reads the log again if it
// changes meanwhile, and re-arms the event.
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
		// Several commands may have read parts of different logs.
		after, err := readLog(ctx, ls, 0, g, capsule.ANALogHeaderSize, capsule.DecodeANALogHeader)
		if err != nil || after.CHGCNT == log.ChangeCount {
			return log, err
		}
	}
	return log, fmt.Errorf("ANA log changed during each of %d attempts to read it", maxDiscoveryAttempts)
}

// anaLog reads the ANA log no further than its end as found so far, since controllers may fail commands beyond the end.
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

// An anaExtent is the length of an ANA log, as far as its beginning states it. Each descriptor is decoded once, however
// small the parts are in which the log is read.
type anaExtent struct {
	end    int // of the descriptors decoded so far, with their namespaces
	groups int // that follow end
}

// grow decodes what has been read of the log; b begins at its first byte.
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
		e.end += capsule.ANADescriptorHeader + 4*int(min(d.NNSIDS, maxANANamespaces+1)) // a larger count exceeds the limit anyway
		e.groups--
	}
}

// anaLogLimit returns the maximum length of the log that this host accepts.
func (ls Logs) anaLogLimit() int {
	id := &ls.controller.identify
	namespaces := id.MNAN
	if namespaces == 0 {
		namespaces = id.NN
	}
	return capsule.ANALogHeaderSize + int(min(id.NANAGRPID, maxANANamespaces))*capsule.ANADescriptorHeader +
		4*int(min(namespaces, maxANANamespaces))
}
