package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strconv"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// maxPing is the most bytes that a ping of rping carries.
const maxPing = 64 << 10

// pinger are rping's options.
type pinger struct {
	server, client    bool
	addr, source      netip.Addr
	port, count, size int
	verbose, validate bool

	out io.Writer
}

func rping(args []string, out io.Writer) error {
	p := pinger{out: out}
	f := flag.NewFlagSet("rping", flag.ContinueOnError)
	f.BoolVar(&p.server, "s", false, "server")
	f.BoolVar(&p.client, "c", false, "client")
	f.Func("a", "the server's address", addrOption(&p.addr))
	f.Func("I", "the client's address", addrOption(&p.source))
	f.IntVar(&p.port, "p", 7174, "port")
	f.IntVar(&p.count, "C", 0, "pings; a server given none takes what comes")
	f.IntVar(&p.size, "S", 64, "bytes of a ping")
	f.BoolVar(&p.verbose, "v", false, "print the data")
	f.BoolVar(&p.validate, "V", false, "nothing: the data is always checked")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case p.size < 32 || p.size > maxPing || p.port < 1 || p.port > 65535:
		return errors.New("-S is 32 to 65536, -p 1 to 65535")
	case p.server && !p.client:
		return p.serve()
	case p.client && !p.server && p.count > 0 && p.addr.IsValid():
		return p.ping()
	}
	return errors.New("want -s, or -c with -a and -C")
}

// An advertisement is the message in which rping's client names memory for the
// server to read, then to write: address, key and length, big-endian, 16 bytes.
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

// pingData is what rping sends in a round, from 0: its number, then the
// characters 'A' to 'z' over and over, of which each round starts one further,
// and a NUL at the end.
func pingData(round, size int) []byte {
	b := append(make([]byte, 0, size), "rdma-ping-"+strconv.Itoa(round)+": "...)
	const span = 'z' - 'A' + 1
	for i := round; len(b) < size-1; i++ {
		b = append(b, byte('A'+i%span))
	}
	return append(b, 0)
}

func (p pinger) serve() error {
	own, err := ownAddress(p.addr, netip.Addr{})
	if err != nil {
		return err
	}
	e, err := open(own)
	if err != nil {
		return err
	}
	defer e.close()
	l, err := e.dev.Listen(netip.AddrPortFrom(own, uint16(p.port)))
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(p.out, "listening on", l.Addr())
	c, err := e.accept(l, firstClient, receives{2, advertisementSize})
	if err != nil {
		return err
	}
	defer c.close()
	mr, err := e.dom.Register(make([]byte, maxPing), rdmatransport.AccessLocalWrite)
	if err != nil {
		return err
	}
	round := 0
	for ; ; round++ {
		if err = p.answer(c, mr, round); err != nil {
			break
		}
	}
	if !errors.Is(err, errNoMore) {
		return fmt.Errorf("round %d: %w", round, err)
	}
	fmt.Fprintln(p.out, round, "pings")
	if round == 0 || p.count > 0 && p.count != round {
		return fmt.Errorf("%d pings, want %d", round, max(1, p.count))
	}
	return nil
}

// errNoMore: the client ended between rounds, as it should.
var errNoMore = errors.New("no more pings")

// answer is the server's part of a round: read, tell, write back, tell.
func (p pinger) answer(c *conn, mr rdmatransport.MemoryRegion, round int) error {
	m, err := c.receive()
	if errors.Is(err, errEnded) && errors.Is(err, rdmatransport.ErrDisconnected) {
		return errNoMore
	}
	if err != nil {
		return err
	}
	from, err := decodeAdvertisement(m)
	if err != nil {
		return err
	}
	data := sge(mr, 0, int(from.size))
	clear(data[0].Buf)
	err = c.do(rdmatransport.SendWR{Op: rdmatransport.OpRead, SGL: data, RemoteAddr: from.addr, RKey: from.rkey})
	if err != nil {
		return fmt.Errorf("RDMA READ: %w", err)
	}
	if p.verbose {
		fmt.Fprintf(p.out, "server ping data: %s\n", bytes.TrimRight(data[0].Buf, "\x00"))
	}
	if !bytes.Equal(data[0].Buf, pingData(round, int(from.size))) {
		return errors.New("what was read is not the ping's data")
	}
	if err := c.send(make([]byte, advertisementSize)); err != nil {
		return err
	}
	if m, err = c.receive(); err != nil {
		return err
	}
	to, err := decodeAdvertisement(m)
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
	return c.send(make([]byte, advertisementSize))
}

func (p pinger) ping() error {
	own, err := ownAddress(p.source, p.addr)
	if err != nil {
		return err
	}
	e, err := open(own)
	if err != nil {
		return err
	}
	defer e.close()
	c, err := e.dial(netip.AddrPortFrom(p.addr, uint16(p.port)), 1, receives{2, advertisementSize})
	if err != nil {
		return err
	}
	defer c.close()
	source, err := e.dom.Register(make([]byte, p.size), rdmatransport.AccessRemoteRead)
	if err != nil {
		return err
	}
	sink, err := e.dom.Register(make([]byte, p.size), rdmatransport.AccessLocalWrite|rdmatransport.AccessRemoteWrite)
	if err != nil {
		return err
	}
	for round := range p.count {
		want := pingData(round, p.size)
		copy(source.Bytes(), want)
		clear(sink.Bytes())
		for _, mr := range []rdmatransport.MemoryRegion{source, sink} {
			if err := c.send(advertisement{mr.IOVA(), mr.RKey(), uint32(p.size)}.encode()); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if _, err := c.receive(); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		if !bytes.Equal(sink.Bytes(), want) {
			return fmt.Errorf("round %d: what came back is not what was sent", round)
		}
		if p.verbose {
			fmt.Fprintf(p.out, "ping data: %s\n", want[:p.size-1])
		}
	}
	fmt.Fprintln(p.out, p.count, "pings")
	return nil
}
