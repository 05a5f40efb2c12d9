package nbd

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// testTimeout is how long a test waits for anything.
const testTimeout = 20 * time.Second

func newStore(t testing.TB, size int64, block int) *memory.Store {
	t.Helper()
	s, err := memory.New(memory.Config{Size: size, BlockSize: block})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve serves stores as exports "1", "2" and so on, until the test ends. Then it closes the stores.
func serve(t testing.TB, cfg Config, stores ...backend.Store) *Server {
	t.Helper()
	cfg.Socket = filepath.Join(t.TempDir(), "s")
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(disks(stores...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		for _, st := range stores {
			if err := st.Close(); err != nil {
				t.Errorf("closing a store: %v", err)
			}
		}
	})
	return s
}

func disks(stores ...backend.Store) (all []Disk) {
	for i, s := range stores {
		all = append(all, Disk{Name: string(rune('1' + i)), Description: "a disk", Store: s})
	}
	return all
}

// A client speaks the protocol with one request at a time, or many.
type client struct {
	t          testing.TB
	c          net.Conn
	structured bool
	size       uint64
	flags      wire.TransmissionFlags
	cookie     wire.Cookie
	lengths    map[wire.Cookie]int // of reads that have no reply yet
}

// how has the options of a client.
type how struct {
	export     string
	structured bool
	blockSize  bool // it observes the block sizes
	allocation bool // it selects base:allocation
}

func dial(t testing.TB, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", s.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(testTimeout))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func connect(t testing.TB, s *Server, h how) *client {
	t.Helper()
	c := &client{t: t, c: dial(t, s), structured: h.structured, lengths: map[wire.Cookie]int{}}
	c.get(18)
	c.put([]byte{0, 0, 0, 3})
	if h.structured {
		c.option(wire.OptStructuredReply, nil)
		if got := c.optionReply(); got != wire.RepAck {
			t.Fatalf("STRUCTURED_REPLY: %#x", got)
		}
	}
	if h.allocation {
		const context = "base:allocation"
		data := append(binary.BigEndian.AppendUint32(nil, uint32(len(h.export))), h.export...)
		c.option(wire.OptSetMetaContext, append(append(data, 0, 0, 0, 1, 0, 0, 0, byte(len(context))), context...))
		if got := c.optionReply(); got != wire.RepMetaContext {
			t.Fatalf("SET_META_CONTEXT: %#x", got)
		}
		c.optionReply()
	}
	data := binary.BigEndian.AppendUint32(nil, uint32(len(h.export)))
	data = append(data, h.export...)
	if h.blockSize {
		data = append(data, 0, 1, 0, byte(wire.InfoBlockSize))
	} else {
		data = append(data, 0, 0)
	}
	c.option(wire.OptGo, data)
	for got := c.optionReply(); got != wire.RepAck; got = c.optionReply() {
		if got != wire.RepInfo {
			t.Fatalf("GO: %#x", got)
		}
	}
	return c
}

func (c *client) put(b []byte) {
	c.t.Helper()
	if _, err := c.c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) get(n int) []byte {
	c.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c.c, b); err != nil {
		c.t.Fatalf("reading %d bytes: %v", n, err)
	}
	return b
}

func (c *client) option(o wire.Option, data []byte) {
	b := []byte("IHAVEOPT")
	b = binary.BigEndian.AppendUint32(b, uint32(o))
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	c.put(append(b, data...))
}

func (c *client) optionReply() wire.OptionReply {
	c.t.Helper()
	b := c.get(20)
	data := c.get(int(binary.BigEndian.Uint32(b[16:])))
	r := wire.OptionReply(binary.BigEndian.Uint32(b[12:]))
	if r == wire.RepInfo && wire.InfoType(binary.BigEndian.Uint16(data)) == wire.InfoExport {
		c.size = binary.BigEndian.Uint64(data[2:])
		c.flags = wire.TransmissionFlags(binary.BigEndian.Uint16(data[10:]))
	}
	return r
}

// ask sends a request and returns its cookie.
func (c *client) ask(r wire.Request, data []byte) wire.Cookie {
	c.t.Helper()
	c.cookie++
	r.Cookie = c.cookie
	if r.Command == wire.CmdRead {
		c.lengths[r.Cookie] = int(r.Length)
	}
	c.put(append(wire.AppendRequest(nil, r), data...))
	return r.Cookie
}

// answer reads the next reply.
func (c *client) answer() (wire.Reply, []byte) {
	c.t.Helper()
	head := c.get(16)
	for {
		r, n, err := wire.DecodeReply(head)
		if err != nil {
			c.t.Fatal(err)
		}
		if n == 0 {
			head = append(head, c.get(1)...)
			continue
		}
		length, isRead := c.lengths[r.Cookie]
		delete(c.lengths, r.Cookie)
		if !isRead || r.Err != wire.OK {
			return r, nil
		}
		if c.structured && r.Length != length {
			c.t.Fatalf("chunk of %d bytes, want %d", r.Length, length)
		}
		return r, c.get(length)
	}
}

// do sends a request and requires a result.
func (c *client) do(r wire.Request, data []byte, want wire.Errno) []byte {
	c.t.Helper()
	cookie := c.ask(r, data)
	got, b := c.answer()
	if got.Cookie != cookie || got.Err != want {
		c.t.Fatalf("%v of %d at %d (flags %d): %v for %d, want %v for %d", r.Command, r.Length, r.Offset, r.Flags, got.Err, got.Cookie, want, cookie)
	}
	return b
}

func (c *client) read(off uint64, n int) []byte {
	c.t.Helper()
	return c.do(wire.Request{Command: wire.CmdRead, Offset: off, Length: uint32(n)}, nil, wire.OK)
}

func (c *client) write(off uint64, b []byte) {
	c.t.Helper()
	c.do(wire.Request{Command: wire.CmdWrite, Offset: off, Length: uint32(len(b))}, b, wire.OK)
}

// gone requires the server to have disconnected.
func (c *client) gone() {
	c.t.Helper()
	if n, err := c.c.Read(make([]byte, 1)); err == nil {
		c.t.Fatalf("%d bytes more", n)
	} else if e, ok := err.(net.Error); ok && e.Timeout() {
		c.t.Fatal("the server does not hang up")
	}
}

// pollings are the polling modes of a loop.
var pollings = map[string]nvmeof.Polling{"adaptive": nvmeof.PollAdaptive, "never": nvmeof.PollNever, "always": nvmeof.PollAlways}
