package connections

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/socketfile"
)

const (
	suffix  = ".sock"
	sockets = "[0-9]*" + suffix // pattern of the control sockets in the directory

	borrowerKey = "borrower" // query parameter: for whom to connect, or what to disconnect
)

// replyTimeout is how long a process may take to list its connections.
const replyTimeout = 5 * time.Second

// All lists the connections of every process of a directory, sorted by subsystem name. Processes that have ended are
// left out and their sockets removed. The error names those that do not answer.
func All(ctx context.Context, dir string) ([]Process, error) {
	paths, err := socketsIn(dir)
	if err != nil {
		return nil, err
	}
	all := make([]*Process, len(paths))
	errs := make([]error, len(paths))
	var wait sync.WaitGroup
	for i, path := range paths {
		wait.Go(func() { // ends with the answer, or with replyTimeout
			ctx, cancel := context.WithTimeout(ctx, replyTimeout)
			defer cancel()
			var p Process
			err := call(ctx, path, "GET", "/v1/process", nil, &p)
			switch {
			case err == nil:
				p.Socket = path
				all[i] = &p
			case errors.Is(err, syscall.ECONNREFUSED):
				_ = socketfile.RemoveDead(path) // if this fails, the next call of All retries
			case errors.Is(err, context.DeadlineExceeded):
				pid, _, _ := strings.Cut(filepath.Base(path), ".")
				errs[i] = fmt.Errorf("process %s has not answered for %v: it is stopped or hangs; its connections are not known (%s)", pid, replyTimeout, path)
			case !errors.Is(err, fs.ErrNotExist):
				errs[i] = err
			}
		})
	}
	wait.Wait()
	var found []Process
	for _, p := range all {
		if p != nil {
			found = append(found, *p)
		}
	}
	slices.SortFunc(found, func(a, b Process) int { return cmp.Compare(first(a), first(b)) })
	return found, errors.Join(errs...)
}

// socketsIn returns the control sockets in a directory, whose name may contain any characters.
func socketsIn(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if is, _ := filepath.Match(sockets, e.Name()); is {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

// first returns the lowest number among a process's subsystems.
func first(p Process) int {
	lowest := maxNumber
	for _, s := range p.Subsystems {
		var n int
		if _, err := fmt.Sscanf(s.Name, "nvme-subsys%d", &n); err == nil {
			lowest = min(lowest, n)
		}
	}
	return lowest
}

// Disconnect asks the process to disconnect the controllers that match all of the subsystem's name, the device's name
// and the transport that are given. It returns the names of the controllers: none if the process has ended in the
// meantime.
func (p *Process) Disconnect(ctx context.Context, nqn, device, transport string) ([]string, error) {
	return p.disconnect(ctx, "", disconnectRequest{NQN: nqn, Device: device, Transport: transport})
}

// GiveBack asks the process to disconnect the named controller if it holds it for the process with the control socket
// borrower, and returns the controller's name. A process of a version that does not know borrowers disconnects the
// controller unconditionally.
func (p *Process) GiveBack(ctx context.Context, device, borrower string) ([]string, error) {
	query := url.Values{borrowerKey: {filepath.Base(borrower)}}
	return p.disconnect(ctx, "?"+query.Encode(), disconnectRequest{Device: device})
}

// Recall asks the process to disconnect the matching controllers, as in Disconnect, that other processes hold for it.
func (p *Process) Recall(ctx context.Context, nqn, device, transport string) ([]string, error) {
	return p.disconnect(ctx, "", disconnectRequest{nqn, device, transport, true})
}

func (p *Process) disconnect(ctx context.Context, query string, what disconnectRequest) ([]string, error) {
	var done disconnected
	err := call(ctx, p.Socket, "POST", "/v1/disconnect"+query, what, &done)
	if Ended(err) {
		return nil, nil
	}
	return done.Names, err
}

// SetPolicy asks the process to set the iopolicy of the subsystems that match all of the subsystem's name and the
// device's name that are given. It returns the names of the subsystems.
func (p *Process) SetPolicy(ctx context.Context, nqn, device, policy string) ([]string, error) {
	var done disconnected
	err := call(ctx, p.Socket, "POST", "/v1/iopolicy", policyRequest{nqn, device, policy}, &done)
	return done.Names, err
}

// Ended reports whether the error of a request to a process means that no process listens at its socket any more.
func Ended(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// Connect asks the process to connect, and returns the name of the controller. The controller is held for the process
// with the control socket borrower, and is disconnected when that process ends.
func (p *Process) Connect(ctx context.Context, options map[string]string, borrower string) (string, error) {
	var done disconnected
	query := url.Values{borrowerKey: {filepath.Base(borrower)}}
	if err := call(ctx, p.Socket, "POST", "/v1/connect?"+query.Encode(), options, &done); err != nil {
		return "", err
	}
	return strings.Join(done.Names, ","), nil
}

// Discover asks the process to read a discovery log, and returns the log page.
func (p *Process) Discover(ctx context.Context, options map[string]string) ([]byte, error) {
	var done discovered
	err := call(ctx, p.Socket, "POST", "/v1/discover", options, &done)
	return done.Log, err
}

// Info reads the process's status again. If the process does not answer in time, the error is
// [context.DeadlineExceeded].
func (p *Process) Info(ctx context.Context) (Process, error) {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	now := Process{Socket: p.Socket}
	err := call(ctx, p.Socket, "GET", "/v1/process", nil, &now)
	return now, err
}

// askInterval is how often AwaitEnd sends a request to the process. It is below the idle timeout of the process's
// server.
const askInterval = idleTime / 2

const aliveRequest = "GET /v1/alive HTTP/1.1\r\nHost: host\r\n\r\n"

// AwaitEnd returns when the process or ctx has ended. It keeps a connection to the control socket, which is closed as
// soon as the process ends. The socket's file may be removed meanwhile.
func (p *Process) AwaitEnd(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", p.Socket)
		switch {
		case Ended(err):
			return
		case err != nil: // the process cannot accept connections at the moment
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // at most until stop
		for late := os.ErrDeadlineExceeded; errors.Is(late, os.ErrDeadlineExceeded); {
			if _, late = io.WriteString(c, aliveRequest); late == nil {
				_ = c.SetReadDeadline(time.Now().Add(askInterval))
				_, late = io.Copy(io.Discard, c) // nil at the end of the connection
			}
		}
		stop()
		_ = c.Close()
	}
}

func call(ctx context.Context, socket, method, path string, body, result any) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://host"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r, err := client.Do(q)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		// A process that has just ended resets the connections that it had not accepted.
		c, gone := dial(ctx, "", "")
		if gone == nil {
			_ = c.Close()
		} else if Ended(gone) {
			err = gone
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", socket, err)
	}
	defer r.Body.Close()
	d := json.NewDecoder(r.Body)
	if r.StatusCode != http.StatusOK {
		var f failure
		if d.Decode(&f) != nil || f.Error == "" {
			f.Error = r.Status
		}
		if done, ok := result.(*disconnected); ok {
			done.Names = f.Names
		}
		if f.Passing {
			return &passingError{f.Error}
		}
		return errors.New(f.Error)
	}
	return d.Decode(result)
}
