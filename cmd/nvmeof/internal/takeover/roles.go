package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/socketfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

const (
	// talkTime is how long a step takes at most that hosts do not wait for.
	talkTime = 30 * time.Second
	// askTime is how long the running process may take to hear that another one asks: it does nothing for that.
	askTime = 10 * time.Second
	// takeTime is how long the new process may take to open everything, before the running one
	// goes on. The RDMA connections of hosts are lost where nobody acknowledges for some 4 s.
	takeTime = 3 * time.Second
)

// Answer connects to a process that has asked to take this one over.
func Answer(socket string) (*Conn, error) {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.Dial("unix", socket)
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE): // it is not to blame who has asked
		return nil, fmt.Errorf("the running process %d cannot connect to the one that requests the takeover: %w", os.Getpid(), err)
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("the running process %d is of user %d, and only that user can take it over: %w", os.Getpid(), os.Geteuid(), err)
	case err != nil:
		return nil, fmt.Errorf("the process that requests the takeover does not listen: %w", err)
	}
	conn, err := NewConn(c.(*net.UnixConn))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return conn, nil
}

// Greet says what the running process is, and reports whether the new one has prepared itself.
func (c *Conn) Greet(h Hello) (ready bool, err error) {
	h.Format = Format
	body, err := json.Marshal(h)
	if err != nil {
		return false, err
	}
	c.within(talkTime)
	if err := c.send(kindHello, body); err != nil {
		return false, err
	}
	switch k, _, err := c.receive(); {
	case err != nil:
		return false, err
	case k == kindCancel:
		return false, nil
	case k == kindReady:
		return true, nil
	default:
		return false, fmt.Errorf("a frame of kind %d", k)
	}
}

// Refuse says why the running process goes on.
func (c *Conn) Refuse(why error) error {
	c.within(talkTime)
	return c.send(kindRefused, []byte(why.Error()))
}

// Give sends a target, and returns nil when the other process has it, and this one is to end. Otherwise
// that one ends, once the connection is closed: hosts never have two of them.
func (c *Conn) Give(x *control.Moved) error {
	c.within(takeTime)
	if err := c.sendState(x); err != nil {
		return err
	}
	switch k, body, err := c.receive(); {
	case err != nil:
		return err
	case k == kindRefused:
		return errors.New(string(body))
	case k != kindServing:
		return fmt.Errorf("a frame of kind %d", k)
	}
	return c.send(kindYours, nil)
}

// socketName is that of the socket of a process that asks.
const socketName = "takeover-%d.sock"

// ClearLeftOver removes from a folder the sockets of processes that have asked and ended without their
// doing. One of another container, whose number is nobody's here, stays if it is served.
func ClearLeftOver(dir string) {
	all, err := filepath.Glob(filepath.Join(dir, "takeover-*.sock"))
	if err != nil {
		return
	}
	for _, path := range all {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(path), socketName, &pid); err == nil && pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = socketfile.RemoveDead(path) // another user's cannot be
		}
	}
}

// Ask has the target at a control socket connect to this process.
func Ask(ctx context.Context, at string) (*Conn, Hello, error) {
	own := filepath.Join(filepath.Dir(at), fmt.Sprintf(socketName, os.Getpid()))
	l, err := socketfile.NewListener(own)
	if errors.Is(err, fs.ErrPermission) {
		return nil, Hello{}, fmt.Errorf("the target at %s belongs to another user: take it over as that user, not as user %d: %w", at, os.Geteuid(), fs.ErrPermission)
	}
	if err != nil {
		return nil, Hello{}, err
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() { // ends with the listener
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	body, err := json.Marshal(map[string]string{"socket": own})
	if err != nil {
		return nil, Hello{}, err
	}
	client := control.NewClient(at)
	defer client.Close()
	limit, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := client.Do(limit, "POST", control.Path("takeover"), nil, body, nil); err != nil {
		if limit.Err() == context.DeadlineExceeded && ctx.Err() == nil {
			err = fmt.Errorf("the target at %s has not answered for %v: it is stopped or hangs", at, askTime)
		}
		return nil, Hello{}, err
	}
	select {
	case c := <-accepted:
		return greeted(c)
	case <-time.After(5 * time.Second):
		return nil, Hello{}, fmt.Errorf("the target at %s did not connect", at)
	}
}

func greeted(accepted net.Conn) (*Conn, Hello, error) {
	var h Hello
	c, err := NewConn(accepted.(*net.UnixConn))
	if err != nil {
		return nil, h, errors.Join(err, accepted.Close())
	}
	c.within(talkTime)
	k, body, err := c.receive()
	switch {
	case err != nil:
		err = fmt.Errorf("the running target does not answer, and may have ended: %w", err)
	case k == kindRefused:
		err = errors.New(string(body))
	case k != kindHello:
		err = fmt.Errorf("a frame of kind %d", k)
	default:
		err = json.Unmarshal(body, &h)
	}
	if err == nil && h.Format != Format {
		err = fmt.Errorf("process %d of version %s has takeover format %d, and this program format %d: stop it and start this one; hosts reconnect", h.PID, h.Version, h.Format, Format)
	}
	if err != nil {
		return nil, h, errors.Join(err, c.Close())
	}
	return c, h, nil
}

// Cancel leaves the running process as it is.
func (c *Conn) Cancel() error { return errors.Join(c.send(kindCancel, nil), c.Close()) }

// Take receives the target, which has no other process from then on.
func (c *Conn) Take() (*control.Moved, error) {
	c.within(talkTime)
	if err := c.send(kindReady, nil); err != nil {
		return nil, err
	}
	switch k, body, err := c.receive(); {
	case err != nil:
		return nil, fmt.Errorf("the running target sent nothing, and may have ended: %w", err)
	case k == kindRefused:
		return nil, fmt.Errorf("the running target continues: %s", body)
	case k != kindState:
		return nil, fmt.Errorf("a frame of kind %d", k)
	default:
		return c.parseState(body)
	}
}

// Serve says that this process has everything, and returns nil when the other one ends: hosts are this
// one's then, and only then. The other one may have waited too long.
func (c *Conn) Serve() error {
	c.within(talkTime)
	if err := c.send(kindServing, nil); err != nil {
		return err
	}
	switch k, _, err := c.receive(); {
	case err != nil:
		return err
	case k != kindYours:
		return fmt.Errorf("a frame of kind %d", k)
	}
	return nil
}
