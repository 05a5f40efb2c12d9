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
	// talkTime limits each step during which hosts do not wait.
	talkTime = 30 * time.Second
	// askTime limits the request to the running process, which only has to note it.
	askTime = 10 * time.Second
	// takeTime is how long the new process may take to open everything before the running one continues. The RDMA
	// connections of hosts are lost after some 4 s without acknowledgements.
	takeTime = 3 * time.Second
)

// Answer connects to a process that has asked to take over this one.
func Answer(socket string) (*Conn, error) {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.Dial("unix", socket)
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE): // the fault is not the new process's
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

// Greet sends h to the new process, and reports whether that has prepared itself.
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
		return false, fmt.Errorf("unexpected frame of kind %d", k)
	}
}

// Refuse tells the new process why the running process continues.
func (c *Conn) Refuse(why error) error {
	c.within(talkTime)
	return c.send(kindRefused, []byte(why.Error()))
}

// Give sends a target. It returns nil once the new process has the target, and the running process must end. After an
// error the new process ends when the connection is closed, so that hosts never have two targets.
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
		return fmt.Errorf("unexpected frame of kind %d", k)
	}
	return c.send(kindYours, nil)
}

// socketName is the name of the socket of a process that asks to take over.
const socketName = "takeover-%d.sock"

// ClearLeftOver removes from a directory the sockets of processes that asked to take over and were killed. The process
// of a socket may be in another container, where its PID means nothing here: such a socket stays if a process listens
// at it.
func ClearLeftOver(dir string) {
	all, err := filepath.Glob(filepath.Join(dir, "takeover-*.sock"))
	if err != nil {
		return
	}
	for _, path := range all {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(path), socketName, &pid); err == nil && pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = socketfile.RemoveDead(path) // fails for sockets of other users
		}
	}
}

// Ask has the target with the control socket at connect to this process.
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
		err = fmt.Errorf("unexpected frame of kind %d", k)
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

// Take receives the target. From then on no other process serves it.
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
		return nil, fmt.Errorf("unexpected frame of kind %d", k)
	default:
		return c.parseState(body)
	}
}

// Serve tells the running process that this one has opened everything. It returns nil once the running process ends;
// only then may this process serve the hosts. An error means that it waited too long, for example.
func (c *Conn) Serve() error {
	c.within(talkTime)
	if err := c.send(kindServing, nil); err != nil {
		return err
	}
	switch k, _, err := c.receive(); {
	case err != nil:
		return err
	case k != kindYours:
		return fmt.Errorf("unexpected frame of kind %d", k)
	}
	return nil
}
