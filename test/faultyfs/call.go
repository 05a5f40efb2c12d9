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

// A call is a request of the test's process to the process that serves the file system. (Package net/rpc would add an
// HTTP server to the executable of each test.)
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

// A caller makes one call at a time.
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

// served handles the calls of the other process.
type served struct {
	s       *server
	devices net.Conn
}

// serve answers calls until the connection ends.
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

// mounted serves the file system that the other process has mounted. It receives the FUSE descriptor.
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
	go server.Serve() // ends when the file system is unmounted
	return server.WaitMount()
}
