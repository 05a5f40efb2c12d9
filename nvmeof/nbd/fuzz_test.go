package nbd

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// FuzzConversation lets a client send any bytes, in any pieces, from the handshake on or after it. The server ends with
// it, writes nothing beyond its disk, and serves another client meanwhile, whose data is unchanged.
func FuzzConversation(f *testing.F) {
	request := func(r wire.Request, data int) []byte {
		return append(wire.AppendRequest(nil, r), make([]byte, data)...)
	}
	f.Add([]byte("\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00"), byte(3), false)
	f.Add(bytes.Join([][]byte{request(wire.Request{Command: wire.CmdWrite, Length: 512}, 512), request(wire.Request{Command: wire.CmdRead, Length: 4096}, 0),
		request(wire.Request{Command: wire.CmdFlush}, 0), request(wire.Request{Command: wire.CmdTrim, Length: 4096}, 0)}, nil), byte(100), true)
	f.Add(request(wire.Request{Command: wire.CmdWriteZeroes, Offset: 1<<64 - 512, Length: 1024}, 0), byte(1), true)
	f.Add(request(wire.Request{Command: wire.CmdWrite, Length: 1<<32 - 1}, 700), byte(255), true)
	f.Add(request(wire.Request{Command: wire.CmdBlockStatus, Flags: 0xffff, Length: 512}, 0), byte(28), true)
	s := serve(f, Config{}, newStore(f, 1<<20, 512), newStore(f, 1<<20, 512))
	honest := connect(f, s, how{export: "1", structured: true})
	data := random(4096)
	honest.write(512, data)
	f.Fuzz(func(t *testing.T, says []byte, step byte, after bool) {
		honest.t = t
		_ = honest.c.SetDeadline(time.Now().Add(testTimeout))
		var c net.Conn
		if after {
			c = connect(t, s, how{export: "2", structured: step%2 == 0, blockSize: step%3 == 0}).c
		} else {
			c = dial(t, s)
		}
		if says = says[:min(len(says), 64<<10)]; !after && bytes.Contains(says, []byte("1")) {
			return // the other client's export
		}
		gone := make(chan struct{})
		go func() { // what it answers has to be taken
			_, _ = io.Copy(io.Discard, c)
			close(gone)
		}()
		for len(says) > 0 {
			n := min(len(says), 1+int(step)*16)
			if _, err := c.Write(says[:n]); err != nil {
				break
			}
			says = says[n:]
		}
		_ = c.(*net.UnixConn).CloseWrite()
		select {
		case <-gone:
		case <-time.After(testTimeout):
			t.Fatal("the server does not end with its client")
		}
		if got := honest.read(512, len(data)); !bytes.Equal(got, data) {
			t.Fatal("another client's data changed")
		}
	})
}
