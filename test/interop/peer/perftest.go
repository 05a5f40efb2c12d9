package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// An operation is what one of perftest's tools does.
type operation int

const (
	opSend operation = iota
	opWrite
	opRead
	opAtomic // until -A says which
	opFetchAdd
	opCompareSwap
)

const (
	maxIterations = 4096
	maxSize       = 8 << 20
	atomicSize    = 8
)

// A bandwidth test is one run of ib_*_bw with its options.
type bandwidthTest struct {
	op         operation
	server     netip.Addr // invalid: this is the server
	source     netip.Addr
	port       int
	size, n    int
	out        io.Writer
	atomicName string
}

// perftest is the tool for an operation.
func perftest(op operation) func([]string, io.Writer) error {
	return func(args []string, out io.Writer) error {
		t := bandwidthTest{op: op, out: out}
		if err := t.parse(args); err != nil {
			return err
		}
		own, err := ownAddress(t.source, t.server)
		if err != nil {
			return err
		}
		e, err := open(own)
		if err != nil {
			return err
		}
		defer e.close()
		if t.server.IsValid() {
			return t.client(e)
		}
		return t.serve(e)
	}
}

func (t *bandwidthTest) parse(args []string) error {
	var cm, force bool
	var device string
	f := flag.NewFlagSet("perftest", flag.ContinueOnError)
	f.BoolVar(&cm, "R", false, "connect with the RDMA CM: required")
	f.BoolVar(&force, "F", false, "nothing: the processor's frequency does not matter")
	f.StringVar(&device, "d", "", "nothing: there is one device")
	f.Func("bind_source_ip", "our own address", addrOption(&t.source))
	f.IntVar(&t.port, "p", 18515, "port")
	f.IntVar(&t.size, "s", 65536, "bytes of a message")
	f.IntVar(&t.n, "n", 1000, "messages")
	f.StringVar(&t.atomicName, "A", "FETCH_AND_ADD", "FETCH_AND_ADD or CMP_AND_SWAP")
	if err := f.Parse(args); err != nil {
		return err
	}
	if t.op == opAtomic {
		names := map[string]operation{"FETCH_AND_ADD": opFetchAdd, "CMP_AND_SWAP": opCompareSwap}
		op, ok := names[t.atomicName]
		if !ok {
			return errors.New("-A is FETCH_AND_ADD or CMP_AND_SWAP")
		}
		t.op, t.size = op, atomicSize
	}
	switch {
	case !cm:
		return errors.New("want -R: only the RDMA CM is supported")
	case t.size < 1 || t.size > maxSize || t.n < 5 || t.n > maxIterations || t.port < 1 || t.port > 65535:
		return fmt.Errorf("out of range: -s 1 to %d, -n 5 to %d or -p 1 to 65535", maxSize, maxIterations)
	case f.NArg() > 1:
		return fmt.Errorf("unexpected %q", f.Arg(1))
	case f.NArg() == 1:
		return addrOption(&t.server)(f.Arg(0))
	}
	return nil
}

// receives are those of the connection that carries the data.
func (t *bandwidthTest) receives() receives {
	if t.op == opSend && !t.server.IsValid() {
		return receives{t.n, t.size}
	}
	return receives{1, 1}
}

// memory is what the client writes to or reads from, for atomics one cycle of
// cache lines.
func (t *bandwidthTest) memory(e *endpoint) (rdmatransport.MemoryRegion, error) {
	access := map[operation]rdmatransport.Access{
		opWrite:       rdmatransport.AccessRemoteWrite,
		opRead:        rdmatransport.AccessRemoteRead,
		opFetchAdd:    rdmatransport.AccessRemoteAtomic,
		opCompareSwap: rdmatransport.AccessRemoteAtomic,
	}[t.op]
	// perftest's client steps through a cycle buffer, with messages smaller than
	// half of it.
	mr, err := e.dom.Register(make([]byte, max(2*t.size, 2*cycleBuffer)), access|rdmatransport.AccessLocalWrite)
	if err == nil && t.op == opRead {
		fill(mr.Bytes())
	}
	return mr, err
}

// fill makes every byte other than 0, and a repetition of no power of 2.
func fill(b []byte) {
	for i := range b {
		b[i] = byte(1 + i%251)
	}
}
