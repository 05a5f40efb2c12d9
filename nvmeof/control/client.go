package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// A ConnectError is a target that was not reached.
type ConnectError struct {
	Path string
	Err  error
}

func (e *ConnectError) Error() string {
	switch {
	case errors.Is(e.Err, fs.ErrNotExist), errors.Is(e.Err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no target is served at %s: is one running, and is this its socket (--socket)?", e.Path)
	case errors.Is(e.Err, fs.ErrPermission):
		return fmt.Sprintf("%s belongs to another user: run this as root, or as the target's user", e.Path)
	}
	return fmt.Sprintf("target at %s: %v", e.Path, e.Err)
}

func (e *ConnectError) Unwrap() error { return e.Err }

// A Client speaks to the API. It may be used by any goroutine.
type Client struct {
	path string
	http *http.Client
}

// maxCalls is how many calls of a client are under way at a time; more wait.
const maxCalls = 32

// NewClient returns a client of the target at a socket, which it does not reach
// before it is asked.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &Client{path, &http.Client{Transport: &http.Transport{DialContext: dial, IdleConnTimeout: 10 * time.Second,
		MaxConnsPerHost: maxCalls, MaxIdleConnsPerHost: maxCalls}}}
}

// Close gives its connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Path joins the parts of a route, escaped.
func Path(parts ...string) string {
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/v1/" + strings.Join(parts, "/")
}

// Do makes a call: path as Path makes it, options of the query that are true or are
// NAME=VALUE, a body or nil, and where the answer goes or nil. The error is an [Error] if the
// target refused, a [ConnectError] if it was not reached.
func (c *Client) Do(ctx context.Context, method, path string, options []string, body []byte, answer any) error {
	query := url.Values{}
	for _, o := range options {
		name, value, given := strings.Cut(o, "=")
		if !given {
			value = "true"
		}
		query.Set(name, value)
	}
	target := "http://target" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r, err := c.http.Do(q)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return &ConnectError{c.path, err}
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return &ConnectError{c.path, err}
	}
	if r.StatusCode != http.StatusOK {
		var e errorBody
		if json.Unmarshal(text, &e) != nil || e.Error.Message == "" {
			e.Error = Error{CodeFailed, fmt.Sprintf("target at %s: %s", c.path, r.Status)}
		}
		return &e.Error
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
