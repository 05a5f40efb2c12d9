//go:build !386 && !arm

package faultyfs

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A call is what the process of a test asks of the one that serves the file system. (Package net/rpc would bring
// an HTTP server into the executable of each test.)
type call struct {
	Method string
	Fault  Fault  // of inject
	Bytes  int64  // of space
	Seed   uint64 // of crash
}

type answer struct {
	Err     string
	Hanging int
	Log     Log
}

// A caller has one call at a time answered.
type caller struct {
	mu  sync.Mutex
	in  *gob.Decoder
	out *gob.Encoder
}

func newCaller(c net.Conn) *caller { return &caller{in: gob.NewDecoder(c), out: gob.NewEncoder(c)} }

func (c *caller) call(q call) (a answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.out.Encode(q); err == nil {
		err = c.in.Decode(&a)
	}
	if err == nil && a.Err != "" {
		err = errors.New(a.Err)
	}
	return a, err
}

// served is what the other process calls.
type served struct {
	s       *server
	devices net.Conn
}

// serve answers until the connection ends.
func (v *served) serve(c net.Conn) {
	in, out := gob.NewDecoder(c), gob.NewEncoder(c)
	for {
		var q call
		if in.Decode(&q) != nil {
			return
		}
		var a answer
		if err := v.carryOut(&q, &a); err != nil {
			a.Err = err.Error()
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

func (v *served) carryOut(q *call, a *answer) error {
	switch q.Method {
	case "serve":
		return v.mounted()
	case "release":
		v.s.release()
		return nil
	case "crash":
		v.s.powerFails(q.Seed)
		return nil
	}
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	switch q.Method {
	case "inject":
		v.s.faults = append(v.s.faults, &q.Fault)
	case "space":
		v.s.space = q.Bytes
	case "hanging":
		a.Hanging = v.s.hangs
	case "begin":
		v.s.begin(v.s.live)
	case "log":
		a.Log = Log{v.s.log.Base, v.s.log.Changes[:len(v.s.log.Changes):len(v.s.log.Changes)]}
	default:
		return fmt.Errorf("%q cannot be called", q.Method)
	}
	return nil
}

// mounted serves what the other process has mounted, whose descriptor it sends.
func (v *served) mounted() error {
	b, oob := make([]byte, 1), make([]byte, 64)
	_, n, _, _, err := v.devices.(*net.UnixConn).ReadMsgUnix(b, oob)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return errors.Join(errors.New("no descriptor"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	server, err := fuse.NewServer(v.s, fmt.Sprintf("/dev/fd/%d", fds[0]), &fuse.MountOptions{MaxWrite: 128 << 10, DisableReadDirPlus: true})
	if err != nil {
		return err
	}
	go server.Serve() // ends when it is taken away
	return server.WaitMount()
}
