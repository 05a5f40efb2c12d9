package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A perftestServer answers one client of perftest.
type perftestServer struct {
	bandwidthTest
	e        *endpoint
	listener rdmatransport.Listener
	control  *conn
	data     *conn // nil until the handshake is that far
	mr       rdmatransport.MemoryRegion

	met  int      // destinations told
	told []uint64 // the client's report
	bye  bool     // said by the client
}

// controlReceives are those of the connection for the handshake.
var controlReceives = receives{8, destinationSize}

func (t *bandwidthTest) serve(e *endpoint) error {
	l, err := e.dev.Listen(netip.AddrPortFrom(e.dev.Addr(), uint16(t.port)))
	if err != nil {
		return err
	}
	defer l.Close()
	s := perftestServer{bandwidthTest: *t, e: e, listener: l}
	if s.mr, err = t.memory(e); err != nil {
		return err
	}
	fmt.Fprintln(t.out, "listening on", l.Addr())
	if s.control, err = e.accept(l, firstClient, controlReceives); err != nil {
		return err
	}
	defer s.control.close()
	err = s.converse()
	if s.data != nil {
		defer s.data.close() // both ends disconnect; the client waits for ours
	}
	if err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%d messages of %d bytes\n", t.n, t.size)
	return nil
}

// converse answers until the client has said good bye.
func (s *perftestServer) converse() error {
	for !s.bye {
		m, err := s.control.receive()
		if err != nil {
			return err
		}
		answer, err := s.answer(m)
		if err == nil {
			err = s.control.send(answer)
		}
		if err == nil && len(m) == destinationSize && s.data == nil {
			s.data, err = s.e.accept(s.listener, patience, s.receives())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *perftestServer) answer(m []byte) ([]byte, error) {
	switch len(m) {
	case textSize:
		if v := decodeText(m); v != perftestVersion {
			return nil, fmt.Errorf("the client is perftest %q, only %s is understood", v, perftestVersion)
		}
		return m, nil
	case numberSize, mtuSize: // agreed, whatever it is
		return m, nil
	case destinationSize:
		s.met++
		s.bye = s.met == s.op.meetings()
		if s.data == nil {
			return destination{}.encode(), nil
		}
		d := destination{s.e.dev.Attrs().MaxReadsIn, s.data.qp.QPN(), s.mr.RKey(), s.mr.IOVA(), s.e.dev.Addr()}
		return d.encode(), nil
	case reportSize:
		s.told = append(s.told, binary.BigEndian.Uint64(m))
		return make([]byte, reportSize), nil
	}
	return nil, fmt.Errorf("message of %d bytes", len(m))
}

// check says whether the client did to us what it reports.
func (s *perftestServer) check() error {
	if s.op == opSend {
		return s.checkSends()
	}
	if len(s.told) != reports {
		return fmt.Errorf("the client reports %d numbers, want %d", len(s.told), reports)
	}
	if s.told[0] != uint64(s.size) || s.told[1] != uint64(s.n) {
		return fmt.Errorf("the client reports %d messages of %d bytes, want %d of %d", s.told[1], s.told[0], s.n, s.size)
	}
	switch s.op {
	case opWrite:
		for _, b := range s.mr.Bytes() {
			if b != 0 {
				return nil
			}
		}
		return errors.New("nothing was written")
	case opFetchAdd:
		var sum uint64
		for b := s.mr.Bytes(); len(b) >= atomicSize; b = b[atomicSize:] {
			sum += binary.NativeEndian.Uint64(b)
		}
		if sum != uint64(s.n) {
			return fmt.Errorf("%d was added, want %d", sum, s.n)
		}
	}
	return nil
}

func (s *perftestServer) checkSends() error {
	for i := range s.n {
		done, err := s.data.arrival()
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if int(done.Bytes) != s.size {
			return fmt.Errorf("message %d has %d bytes, want %d", i, done.Bytes, s.size)
		}
	}
	return nil
}
