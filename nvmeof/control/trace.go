package control

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/url"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A TracedCommand is a command that was answered, or a count of commands that were dropped from the trace.
type TracedCommand struct {
	Time       time.Time  `json:"time,omitzero"` // time of arrival
	Host       nvmeof.NQN `json:"host,omitempty"`
	Subsystem  nvmeof.NQN `json:"subsystem,omitempty"`
	Controller int        `json:"controller,omitempty"`
	Queue      int        `json:"queue"`
	CID        int        `json:"cid"`
	Opcode     string     `json:"opcode,omitempty"` // name of the opcode
	NSID       int        `json:"nsid,omitempty"`
	LBA        uint64     `json:"lba,omitempty"`
	Blocks     int        `json:"blocks,omitempty"`
	Status     string     `json:"status,omitempty"` // as text, with the codes
	OK         bool       `json:"ok"`

	// Latency is the time from the arrival of the command until it was answered and the host had acknowledged its
	// data. Storage is the part of it in the store, and Fabric the part for the data transfer; 0: there was none.
	// All are in nanoseconds.
	Latency int `json:"latency-ns"`
	Storage int `json:"storage-ns,omitempty"`
	Fabric  int `json:"fabric-ns,omitempty"`

	// Dropped is how many commands have been dropped so far, since the client did not receive them fast enough. A
	// line with it has no command.
	Dropped uint64 `json:"dropped,omitempty"`
}

// traceEvery is how often the trace is read.
const traceEvery = 20 * time.Millisecond

func traceStream() stream {
	return stream{"/v1/trace", "trace", "Follow the commands of hosts as they are completed, one JSON object per line.",
		"application/x-ndjson", TracedCommand{}, []streamOption{
			nqnOption("host", "Only commands of this host."),
			nqnOption("nqn", "Only commands to this subsystem."),
			numberOption("nsid", "Only I/O commands to this namespace.", math.MaxUint32),
			{"slower-than", "string", "Only commands that took at least this time, as in 5ms.", func(v string) bool {
				return new(config.Duration).UnmarshalText([]byte(v)) == nil
			}, "a duration, as in 5ms"},
			numberOption("count", "Number of commands after which the stream ends; 0: no limit. Default 0.", 1<<31-1),
			secondsOption(),
		}, serveTrace}
}

func serveTrace(ctx context.Context, m *Manager, q url.Values, w *streamWriter) error {
	var slow config.Duration
	_ = slow.UnmarshalText([]byte(q.Get("slower-than"))) // it was checked; empty if it is not given
	trace, err := target.NewTrace(m.target, target.TraceFilter{Host: nvmeof.NQN(q.Get("host")), Subsystem: nvmeof.NQN(q.Get("nqn")),
		NSID: capsule.NSID(number(q, "nsid")), SlowerThan: time.Duration(slow)})
	if errors.Is(err, target.ErrTracing) {
		return &busyError{"another trace is running: end it first"}
	}
	if err != nil {
		return err
	}
	defer trace.Close()
	if err := w.write(nil); err != nil {
		return err
	}
	return followTrace(ctx, trace, number(q, "count"), w.write)
}

// followTrace writes traced commands until ctx ends or left commands are written; 0: no limit.
func followTrace(ctx context.Context, trace *target.Trace, left int, write func([]byte) error) error {
	tick := time.NewTicker(traceEvery)
	defer tick.Stop()
	var buf []byte
	var lost uint64
	var reported time.Time // when dropped commands were last reported
	for last := false; !last; {
		var now time.Time
		select {
		case <-ctx.Done():
			last = true
		case now = <-tick.C:
		}
		commands, dropped := trace.Read()
		if left > 0 && len(commands) >= left {
			commands, last = commands[:left], true
		}
		left -= min(left, len(commands))
		buf = appendTraced(buf[:0], commands)
		if dropped > lost && (last || now.Sub(reported) >= time.Second) {
			lost, reported = dropped, now
			buf = appendLine(buf, TracedCommand{Dropped: lost})
		}
		if len(buf) > 0 {
			if err := write(buf); err != nil {
				return err
			}
		}
	}
	return nil
}

func appendTraced(b []byte, commands []target.TracedCommand) []byte {
	for i := range commands {
		b = appendLine(b, tracedCommand(&commands[i]))
	}
	return b
}

func appendLine(b []byte, c TracedCommand) []byte {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // its types can be encoded
	}
	return append(append(b, text...), '\n')
}

// tracedCommand returns a command in the form of the API.
func tracedCommand(c *target.TracedCommand) TracedCommand {
	cmd := &c.Command
	out := TracedCommand{Time: c.Time, Host: c.Host, Subsystem: c.Subsystem, Controller: int(c.Controller), Queue: int(c.Queue), CID: int(cmd.CID),
		Opcode: capsule.AdminOpcode(cmd.Opcode).String(), NSID: int(cmd.NSID), Status: c.Status.String(), OK: c.Status.OK(),
		Latency: int(c.Latency), Storage: max(0, int(c.Storage)), Fabric: int(c.Fabric)}
	switch {
	case cmd.Opcode == capsule.OpcodeFabrics:
		out.Opcode, out.NSID = cmd.FabricsType().String(), 0
	case c.Queue != 0:
		out.Opcode = capsule.IOOpcode(cmd.Opcode).String()
		if hasRange(capsule.IOOpcode(cmd.Opcode)) {
			f := cmd.ReadWrite()
			out.LBA, out.Blocks = uint64(f.SLBA), int(f.Blocks)
		}
	}
	return out
}

// hasRange reports whether commands with the opcode have a range of blocks.
func hasRange(o capsule.IOOpcode) bool {
	switch o {
	case capsule.IORead, capsule.IOWrite, capsule.IOCompare, capsule.IOWriteZeroes, capsule.IOVerify:
		return true
	}
	return false
}
