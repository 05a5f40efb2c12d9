package rdmatools

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Limits of rping.
const (
	minPing = 32
	maxPing = 64 << 10
	// maxShown is how many bytes of wrong data are printed.
	maxShown = 48
	// pingPort is rping's port.
	pingPort = 7174
)

// pingDepths has room for one advertisement at a time in each direction, while an RDMA READ or WRITE is in flight.
var pingDepths = depths{4, 2, advertisementSize}

// A pinger is one side of rping.
type pinger struct {
	session
	isServer, isClient bool
	server             string
	count, size        int
	verbose, validate  bool

	out io.Writer
}

func newPing(d Devices) *cobra.Command {
	p := &pinger{session: session{Devices: d}}
	cmd := &cobra.Command{
		Use:   "ping -s [-a ADDR] | -c -a SERVER",
		Short: "Send data there and back by RDMA READ and WRITE, as rping",
		Long: `Send the server the address of a buffer. The server reads it by RDMA READ and writes
it to another buffer of the client by RDMA WRITE; the client compares the two. This
is rdma-core's rping, with its options. The other end is the same command or rping.
A client ends after -C pings or on SIGINT, and reports how long they took. A server
serves one client.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.out = cmd.OutOrStdout()
			return p.run(cmd)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&p.isServer, "server", "s", false, "run the server")
	f.BoolVarP(&p.isClient, "client", "c", false, "run the client")
	f.StringVarP(&p.server, "addr", "a", "", "the server's address (default of a server: the first that other machines can reach)")
	f.StringVarP(&p.own, "host-traddr", "I", "", "a client's own address (default: the route's)")
	f.IntVarP(&p.count, "count", "C", 0, "number of pings (default: until SIGINT for a client, unlimited for a server)")
	f.IntVarP(&p.size, "size", "S", 64, "size of a ping in bytes, 32 to 65536")
	f.BoolVarP(&p.verbose, "verbose", "v", false, "print the data")
	f.BoolVarP(&p.validate, "validate", "V", false, "check the data; always on")
	p.addFlags(cmd, pingPort)
	return cmd
}

func (p *pinger) run(cmd *cobra.Command) error {
	if err := p.check(); err != nil {
		return err
	}
	switch {
	case p.size < minPing || p.size > maxPing:
		return failure.Usagef("--size %d: %d to %d", p.size, minPing, maxPing)
	case p.count < 0:
		return failure.Usagef("--count %d: want 0 or more", p.count)
	case p.isServer == p.isClient:
		return failure.Usagef("either -s, for the server, or -c -a ADDR, for the client")
	case p.isServer:
		if p.server != "" {
			p.own = p.server
		}
		return p.serve(cmd.Context(), cmd.ErrOrStderr(), p.answerAll)
	case p.server == "":
		return failure.Usagef("--addr is missing: the server's address, as in -a 192.0.2.1")
	}
	server, err := p.Address(cmd.Context(), p.server)
	if err != nil {
		return err
	}
	return p.client(cmd.Context(), cmd.ErrOrStderr(), server, func(e *endpoint) error { return p.ping(e, server) })
}

// An advertisement is the message with which rping's client names the memory that the server reads, and then the
// memory that it writes: address, key and length, big-endian, 16 bytes.
type advertisement struct {
	addr uint64
	rkey rdmatransport.RKey
	size uint32
}

const advertisementSize = 16

func (a advertisement) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, a.addr)
	b = binary.BigEndian.AppendUint32(b, uint32(a.rkey))
	return binary.BigEndian.AppendUint32(b, a.size)
}

func decodeAdvertisement(b []byte) (advertisement, error) {
	if len(b) != advertisementSize {
		return advertisement{}, fmt.Errorf("message of %d bytes, want %d", len(b), advertisementSize)
	}
	a := advertisement{binary.BigEndian.Uint64(b), rdmatransport.RKey(binary.BigEndian.Uint32(b[8:])), binary.BigEndian.Uint32(b[12:])}
	if a.size == 0 || a.size > maxPing {
		return a, fmt.Errorf("%d bytes advertised, want 1 to %d", a.size, maxPing)
	}
	return a, nil
}

// pingData returns the data of a round of rping, counted from 0: the number of the round, the characters 'A' to 'z'
// repeated, starting one character later in each round, and a NUL at the end.
func pingData(round, size int) []byte {
	b := append(make([]byte, 0, size), "rdma-ping-"+strconv.Itoa(round)+": "...)
	const span = 'z' - 'A' + 1
	for i := round; len(b) < size-1; i++ {
		b = append(b, byte('A'+i%span))
	}
	return append(b[:min(len(b), size-1)], 0)
}

// answerAll serves a client until it disconnects between two rounds.
func (p *pinger) answerAll(e *endpoint, l rdmatransport.Listener) error {
	c, err := e.accept(l, unlimited, pingDepths)
	if err != nil {
		return err
	}
	defer c.close()
	mr, err := e.dom.Register(make([]byte, maxPing), rdmatransport.AccessLocalWrite)
	if err != nil {
		return err
	}
	round := 0
	for err == nil {
		if err = p.answer(c, mr, round); err == nil {
			round++
		}
	}
	if !errors.Is(err, errNoMore) {
		return fmt.Errorf("round %d: %w", round, err)
	}
	if round == 0 || p.count > 0 && p.count != round {
		return fmt.Errorf("%d pings, want %d", round, max(1, p.count))
	}
	if p.json() {
		return writeJSON(p.out, pingJSON{Pings: round})
	}
	_, err = fmt.Fprintln(p.out, round, "pings")
	return err
}

// errNoMore means that the client disconnected between two rounds, as it should.
var errNoMore = errors.New("no more pings")

// answer performs the server's part of a round: read, report, write back, report.
func (p *pinger) answer(c *conn, mr rdmatransport.MemoryRegion, round int) error {
	from, err := advertised(c)
	if left(err) {
		return errNoMore
	}
	if err != nil {
		return err
	}
	data := sge(mr, 0, int(from.size))
	clear(data[0].Buf)
	err = c.do(rdmatransport.SendWR{Op: rdmatransport.OpRead, SGL: data, RemoteAddr: from.addr, RKey: from.rkey})
	if err != nil {
		return fmt.Errorf("RDMA READ: %w", err)
	}
	if !bytes.Equal(data[0].Buf, pingData(round, int(from.size))) {
		return &failure.WrongData{Err: fmt.Errorf("what was read is not the ping's data: it begins with %+q", data[0].Buf[:min(len(data[0].Buf), maxShown)])}
	}
	if p.verbose && !p.json() { // only verified data is printed, since other data might affect a terminal
		fmt.Fprintf(p.out, "server ping data: %s\n", bytes.TrimRight(data[0].Buf, "\x00"))
	}
	if err := c.send(make([]byte, advertisementSize)); err != nil {
		return err
	}
	to, err := advertised(c)
	if err == nil && to.size != from.size {
		err = fmt.Errorf("%d bytes to read, %d to write", from.size, to.size)
	}
	if err != nil {
		return err
	}
	err = c.do(rdmatransport.SendWR{Op: rdmatransport.OpWrite, SGL: data, RemoteAddr: to.addr, RKey: to.rkey})
	if err != nil {
		return fmt.Errorf("RDMA WRITE: %w", err)
	}
	if err := c.send(make([]byte, advertisementSize)); !left(err) {
		return err
	}
	return nil // that was the last
}

// advertised waits for the client's next advertisement.
func advertised(c *conn) (advertisement, error) {
	m, err := c.receive()
	if err != nil {
		return advertisement{}, err
	}
	return decodeAdvertisement(m)
}

// A pingMemory is the memory of a client: what the server reads, and where it writes.
type pingMemory struct{ source, sink rdmatransport.MemoryRegion }

func (p *pinger) ping(e *endpoint, server netip.Addr) error {
	c, err := e.dial(call{to: netip.AddrPortFrom(server, p.port), reads: 1}, pingDepths)
	if err != nil {
		return err
	}
	defer c.close()
	var m pingMemory
	if m.source, err = e.dom.Register(make([]byte, p.size), rdmatransport.AccessRemoteRead); err != nil {
		return err
	}
	if m.sink, err = e.dom.Register(make([]byte, p.size), rdmatransport.AccessLocalWrite|rdmatransport.AccessRemoteWrite); err != nil {
		return err
	}
	var times []time.Duration
	for round := 0; p.count == 0 || round < p.count; round++ {
		began := time.Now()
		err := p.round(c, m, round)
		if p.count == 0 && round > 0 && errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		times = append(times, time.Since(began))
	}
	return p.summary(times)
}

func (p *pinger) round(c *conn, m pingMemory, round int) error {
	want := pingData(round, p.size)
	copy(m.source.Bytes(), want)
	clear(m.sink.Bytes())
	for _, mr := range []rdmatransport.MemoryRegion{m.source, m.sink} {
		if err := c.send(advertisement{mr.IOVA(), mr.RKey(), uint32(p.size)}.encode()); err != nil {
			return err
		}
		if _, err := c.receive(); err != nil {
			return err
		}
	}
	if !bytes.Equal(m.sink.Bytes(), want) {
		return &failure.WrongData{Err: errors.New("what came back is not what was sent")}
	}
	if p.verbose && !p.json() {
		fmt.Fprintf(p.out, "ping data: %s\n", want[:p.size-1])
	}
	return nil
}

// pingJSON is the output of a ping with -o json.
type pingJSON struct {
	Pings int        `json:"pings"`
	Size  int        `json:"size,omitempty"` // bytes
	Times *pingTimes `json:"rtt_usec,omitempty"`
}

// pingTimes holds the times of whole rounds in microseconds.
type pingTimes struct {
	Min     float64 `json:"min"`
	Average float64 `json:"avg"`
	Max     float64 `json:"max"`
}

func (p *pinger) summary(rounds []time.Duration) error {
	t := pingTimes{Min: rounds[0].Seconds() * 1e6}
	for _, d := range rounds {
		us := d.Seconds() * 1e6
		t.Min, t.Max, t.Average = min(t.Min, us), max(t.Max, us), t.Average+us/float64(len(rounds))
	}
	if p.json() {
		return writeJSON(p.out, pingJSON{len(rounds), p.size, &t})
	}
	_, err := fmt.Fprintf(p.out, "%d pings of %d bytes, round trip min/avg/max = %.1f/%.1f/%.1f us\n", len(rounds), p.size, t.Min, t.Average, t.Max)
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
