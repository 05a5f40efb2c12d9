package target

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

const required = capsule.StatusAuthenticationRequired | dnr

// everyIO returns commands of an I/O queue that must not have any effect on namespace 2.
func everyIO() []*hostCommand {
	rw := capsule.ReadWrite{Blocks: 1}
	block := func() []byte { return make([]byte, 512) }
	first, second := fusedPair(2, rw, block(), block())
	return []*hostCommand{
		readOf(2), writeOf(2), ioCommand(capsule.IOFlush, 2, nil, nil), ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil),
		ioCommand(capsule.IOWriteZeroes, 2, rw, nil), ioCommand(capsule.IOCompare, 2, rw, block()), ioCommand(capsule.IOVerify, 2, rw, nil),
		ioCommand(capsule.IODatasetManagement, 2, capsule.DatasetManagement{Ranges: 1, Deallocate: true}, dsmData(capsule.DSMRange{Blocks: 1})),
		copyCommand(2, capsule.Copy{SDLBA: 8}, capsule.CopyRange{Blocks: 1}),
		reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{}, 0, 7),
		ioCommand(capsule.IOReservationReport, 2, capsule.ReservationReport{Length: 64, Extended: true}, make([]byte, 64)),
		first, second, ioCommand(0xc0, 2, nil, nil),
		fabricsCommand(capsule.FabricsPropertyGet, capsule.Property{Size: 8}), fabricsCommand(capsule.FabricsDisconnect, nil),
		connectCommand(capsule.Connect{QID: 1, SQSIZE: 31}, connectData()),
	}
}

// TestIOQueueBeforeAuthentication is row 108 for an I/O queue: authentication on the admin queue does not unlock
// other queues, at no step of an unfinished exchange, nor after one that failed.
func TestIOQueueBeforeAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t)
		s := newFakeStore(1 << 20)
		k.export(s)
		_, id := k.admin()
		io, _ := k.connect(1, id)
		refused := func() {
			t.Helper()
			for _, c := range everyIO() {
				io.wantStatus(required, c)
			}
		}
		refused()
		x := k.exchange()
		io.sendAuth(x)
		refused() // the challenge is due
		io.receiveAuth(x)
		refused() // the reply is due
		io.sendAuth(x)
		io.receiveAuth(x)
		if x.Pending() != nil { // Success2, for which the target need not wait
			io.sendAuth(x)
		}
		io.wantOK(readOf(2))
		io.lose()

		io, _ = k.connect(2, id)
		io.authenticate(k.exchange(func(c *auth.HostConfig) { c.HostKey = newKey(t) }))
		refused()
		<-io.closed
		if ops := s.ops(); len(ops) != 1 {
			t.Errorf("the store saw %+v, want the one read", ops)
		}
		fresh, _ := k.connect(3, id)
		fresh.authenticate(k.exchange())
		fresh.wantOK(readOf(2))
		k.close2(t)
	})
}

// TestReplay is row 109: the recorded messages of a successful exchange unlock nothing, since each challenge is
// different.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t)
		h, _ := k.connect(0, capsule.ControllerIDDynamic)
		x := k.exchange(func(c *auth.HostConfig) { c.ControllerKey = auth.Key{} })
		var said, heard [][]byte
		for !x.Ended() {
			if x.Pending() != nil {
				said = append(said, bytes.Clone(x.Pending()))
				h.sendAuth(x)
				continue
			}
			c := authReceiveCommand(4096)
			h.wantOK(c)
			heard = append(heard, bytes.Clone(c.memory))
			x.Receive(c.memory)
		}
		if x.State() != auth.StateDone {
			t.Fatal(x.Err())
		}
		thief, _ := k.connect(0, capsule.ControllerIDDynamic)
		thief.wantOK(authSendCommand(said[0]))
		challenge := authReceiveCommand(4096)
		thief.wantOK(challenge)
		if bytes.Equal(challenge.memory, heard[0]) || bytes.Equal(challenge.memory[16:80], heard[0][16:80]) {
			t.Error("the challenge is the one of before")
		}
		thief.wantOK(authSendCommand(said[1]))
		answer := authReceiveCommand(4096)
		thief.wantOK(answer)
		if answer.memory[0] != 0 || answer.memory[1] != byte(auth.MessageFailure1) {
			t.Errorf("a replayed reply is answered % x", answer.memory[:8])
		}
		thief.wantStatus(required, adminCommand(capsule.AdminKeepAlive, nil, nil))
		<-thief.closed
		k.wantCounts(AuthCounts{Succeeded: 1, Failed: 1, Refused: 1})
		h.property(capsule.PropertyCSTS) // the recorded connection is not affected
		k.admin2(t)
		k.close2(t)
	})
}
