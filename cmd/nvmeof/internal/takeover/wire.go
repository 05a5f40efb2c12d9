package takeover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kind is the type of a frame.
type kind uint32

const (
	kindHello   kind = iota + 1 // a Hello, JSON
	kindReady                   // the new process has made its preparations
	kindCancel                  // the new process does not want to take over
	kindState                   // a state, JSON
	kindFiles                   // descriptors: one byte for each
	kindServing                 // the new process has opened everything, and waits for kindYours
	kindRefused                 // why the running process continues, as text
	kindYours                   // the running process ends: the new one may serve hosts
)

const (
	maxFrame = 1 << 30 // the waiting commands of hosts may have a gigabyte of data, at most
	maxFiles = 100     // per message; Linux allows 253
	headSize = 8
)

// A Conn is one end of the connection between the two processes.
type Conn struct {
	unix  *net.UnixConn
	other *os.Process // at the other end; a pidfd where the kernel supports it
	files []*os.File  // received, and not yet returned by receiveFiles
}

// NewConn returns a Conn whose other end is a process of the same user, or of root.
func NewConn(c *net.UnixConn) (*Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	if control := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); control != nil {
		err = control
	}
	if err == nil {
		err = check(peer, os.Geteuid())
	}
	var other *os.Process
	if err == nil {
		other, err = os.FindProcess(int(peer.Pid))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot identify the process at the other end: %w", err)
	}
	return &Conn{unix: c, other: other}, nil
}

// check rejects a peer that is not trusted, or whose end cannot be waited for.
func check(peer *unix.Ucred, own int) error {
	switch {
	case peer.Uid != 0 && int(peer.Uid) != own:
		return fmt.Errorf("process %d belongs to user %d, but this one to user %d", peer.Pid, peer.Uid, own)
	case peer.Pid <= 0: // pid_namespaces(7); kill(2) takes 0 for this process's own group
		return errors.New("a process of another container (PID namespace), whose end cannot be observed: stop it and start this one")
	}
	return nil
}

// PID returns the PID of the process at the other end.
func (c *Conn) PID() int { return c.other.Pid }

// AwaitEnd waits up to d until the other process has ended, and then kills it, to free the resources that it has open.
func (c *Conn) AwaitEnd(d time.Duration) error {
	for _, end := range []func() error{func() error { return nil }, c.other.Kill} {
		if err := end(); errors.Is(err, os.ErrProcessDone) {
			return nil
		} else if err != nil {
			return fmt.Errorf("ending process %d: %w", c.PID(), err)
		}
		if c.Ended(d) {
			return nil
		}
	}
	return fmt.Errorf("process %d does not end", c.PID())
}

// Ended reports whether the other process has ended, or does so within d. A process closes its connection a little
// before it has ended.
func (c *Conn) Ended(d time.Duration) bool {
	for until := time.Now().Add(d); !c.ended(); time.Sleep(endPeriod) {
		if time.Now().After(until) {
			return false
		}
	}
	return true
}

const endPeriod = 2 * time.Millisecond

// ended reports whether the other process has ended, even if its parent has not waited for it yet.
func (c *Conn) ended() bool {
	if errors.Is(c.other.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return true // its PID may belong to another process by now
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID()))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	return endedBy(b)
}

// endedBy reports whether a process has ended, according to its line in proc_pid_stat(5). The first thread may end
// before the others, and the process's files stay open until the last thread has ended.
func endedBy(stat []byte) bool {
	const state, threads = 0, 17 // counted after the name, which may contain brackets
	after := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(after) <= threads || !bytes.ContainsAny(after[state], "ZX") {
		return false
	}
	n, err := strconv.Atoi(string(after[threads]))
	return err == nil && n <= 1
}

// Close closes the connection.
func (c *Conn) Close() error {
	errs := []error{c.unix.Close()}
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func (c *Conn) within(d time.Duration) { _ = c.unix.SetDeadline(time.Now().Add(d)) } // an error comes with the next call

// send sends a frame.
func (c *Conn) send(k kind, body []byte) error {
	head := binary.LittleEndian.AppendUint32(nil, uint32(k))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(body)))
	buffers := net.Buffers{head, body}
	_, err := buffers.WriteTo(c.unix)
	return err
}

// sendFiles sends descriptors. The caller remains their owner.
func (c *Conn) sendFiles(files []*os.File) error {
	for len(files) > 0 {
		n := min(len(files), maxFiles)
		var fds []int
		for _, f := range files[:n] {
			fds = append(fds, int(f.Fd()))
		}
		frame := binary.LittleEndian.AppendUint32(nil, uint32(kindFiles))
		frame = binary.LittleEndian.AppendUint32(frame, uint32(n))
		frame = append(frame, make([]byte, n)...)
		if _, _, err := c.unix.WriteMsgUnix(frame, unix.UnixRights(fds...), nil); err != nil {
			return err
		}
		files = files[n:]
	}
	return nil
}

// receive returns the next frame.
func (c *Conn) receive() (kind, []byte, error) {
	var head [headSize]byte
	if err := c.read(head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes, at most %d", n, maxFrame)
	}
	body := make([]byte, n)
	err := c.read(body)
	return kind(binary.LittleEndian.Uint32(head[:])), body, err
}

// receiveFiles returns the next n descriptors.
func (c *Conn) receiveFiles(n int) ([]*os.File, error) {
	for len(c.files) < n {
		switch k, _, err := c.receive(); {
		case err != nil:
			return nil, err
		case k != kindFiles:
			return nil, fmt.Errorf("unexpected frame of kind %d, want descriptors", k)
		}
	}
	files := c.files[:n:n]
	c.files = c.files[n:]
	return files, nil
}

// read fills b, and keeps the descriptors that come with it.
func (c *Conn) read(b []byte) error {
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	for len(b) > 0 {
		n, m, flags, _, err := c.unix.ReadMsgUnix(b, oob)
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err == nil && flags&unix.MSG_CTRUNC != 0 {
			err = errors.New("descriptors were lost, because this process may not have so many open (LimitNOFILE)")
		}
		if err == nil {
			err = c.keep(oob[:m])
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// keep stores the descriptors of a control message. Go receives with MSG_CMSG_CLOEXEC.
func (c *Conn) keep(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return err
		}
		for _, fd := range fds {
			c.files = append(c.files, os.NewFile(uintptr(fd), "moved"))
		}
	}
	return nil
}
