package target

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// FuzzCommands sends arbitrary commands with any amount of data on an admin and an I/O queue. Each completes once
// or is held, and the controller stays, or is reset by a command for that.
func FuzzCommands(f *testing.F) {
	seed := func(c *hostCommand, dataPages uint8) {
		b := make([]byte, capsule.CommandSize)
		c.sqe.Encode(b)
		f.Add(b, dataPages, false)
		f.Add(b, dataPages, true)
	}
	seed(adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: 1}, nil), 8)
	seed(adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: 2, Length: 512}, nil), 1)
	seed(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: 7}, nil), 0)
	seed(adminCommand(capsule.AdminAsyncEvent, nil, nil), 0)
	seed(ioCommand(capsule.IOWrite, 1, capsule.ReadWrite{Blocks: 8}, nil), 8)
	seed(ioCommand(capsule.IODatasetManagement, 1, capsule.DatasetManagement{Ranges: 2, Deallocate: true}, nil), 1)
	seed(ioCommand(capsule.IOCompare, 1, capsule.ReadWrite{Blocks: 8}, nil), 8)
	seed(ioCommand(capsule.IOVerify, 1, capsule.ReadWrite{Blocks: 8}, nil), 0)
	seed(ioCommand(capsule.IOCopy, 1, capsule.Copy{SDLBA: 64, Ranges: 1}, nil), 1)
	seed(ioCommand(capsule.IOReservationRegister, 1, capsule.ReservationCommand{}, nil), 1)
	seed(ioCommand(capsule.IOReservationReport, 1, capsule.ReservationReport{Length: 512, Extended: true}, nil), 1)
	seed(adminCommand(capsule.AdminAbort, capsule.Abort{SQID: 1}, nil), 0)
	seed(fabricsCommand(capsule.FabricsPropertySet, capsule.Property{Size: 4, Offset: 0x14, Value: 0x460060}), 0)
	seed(fabricsCommand(capsule.FabricsConnect, capsule.Connect{SQSIZE: 31}), 2)
	f.Fuzz(func(t *testing.T, sqe []byte, sectors uint8, onIO bool) {
		cmd, err := capsule.DecodeCommand(sqe)
		if err != nil {
			return
		}
		fix := newFixture(t)
		admin, io := fix.both()
		h := admin
		if onIO {
			h = io
		}
		c := &hostCommand{sqe: cmd}
		if sectors > 0 {
			c.memory = pattern(512*int(sectors), 1)
		}
		h.start(c)
		answers := 0
		held := cmd.Opcode == capsule.Opcode(capsule.AdminAsyncEvent) ||
			onIO && cmd.Flags.Fuse() == capsule.FuseFirst && cmd.Opcode != capsule.OpcodeFabrics
		late := time.Now().Add(10 * time.Second) // large ranges take many turns, and some commands other goroutines
		for turn := 0; answers == 0 && time.Now().Before(late) && !(held && turn > 4); turn++ {
			h.call(func() { answers = c.answers })
		}
		if answers > 1 || answers == 0 && !held {
			t.Errorf("opcode %#x answered %d times", cmd.Opcode, answers)
		}
		admin.property(capsule.PropertyCSTS)
	})
}
