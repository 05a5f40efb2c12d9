package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// A ConnectError reports that a target was not reached.
type ConnectError struct {
	Path string
	Err  error
}

func (e *ConnectError) Error() string {
	switch {
	case strings.Contains(e.Path, "://") && errors.Is(e.Err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no target responds at %s: check that it is running, and that this is the address of its console", e.Path)
	case errors.Is(e.Err, fs.ErrNotExist), errors.Is(e.Err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no target responds at %s: check that it is running, and that this is its socket (--socket)", e.Path)
	case errors.Is(e.Err, fs.ErrPermission):
		return fmt.Sprintf("%s belongs to another user: run this as root, or as the target's user", e.Path)
	}
	return fmt.Sprintf("target at %s: %v", e.Path, e.Err)
}

func (e *ConnectError) Unwrap() error { return e.Err }

// A Client calls the API of a target. Its methods may be called from any goroutine.
type Client struct {
	path  string // path of the socket, or address
	base  string // URL without the path
	token func() (string, error)
	http  *http.Client
}

// maxCalls is the maximum number of concurrent calls of a client; others wait.
const maxCalls = 32

// NewClient returns a client of the target at a socket. It connects at the first call.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &Client{path, "http://target", func() (string, error) { return "", nil }, &http.Client{CheckRedirect: stay, Transport: &http.Transport{DialContext: dial, IdleConnTimeout: 10 * time.Second,
		MaxConnsPerHost: maxCalls, MaxIdleConnsPerHost: maxCalls}}}
}

// dialTime limits connecting to a console. If its name has several addresses, net.Dialer divides the time among them;
// without a limit it waits for the first that does not answer as long as the kernel does, two minutes.
const dialTime = 10 * time.Second

// NewRemoteClient returns a client of the target whose console is at an address like https://192.0.2.1:9430, or
// http:// on a loopback address. If the name has several addresses, those of the gateways of a group for example, it
// connects to the first that answers. It calls token before each call. c may be nil.
func NewRemoteClient(address string, token func() (string, error), c *tls.Config) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%q is not the address of a console: want one like https://192.0.2.1:9430", address)
	}
	if u.Scheme == "http" && !isHere(u.Hostname()) {
		return nil, fmt.Errorf("%s would send the token unencrypted: write https://%s", address, u.Host)
	}
	if token == nil {
		return nil, errors.New("control: the function that has the token is missing")
	}
	base := u.Scheme + "://" + u.Host
	return &Client{base, base, token, &http.Client{CheckRedirect: stay, Transport: &http.Transport{TLSClientConfig: c, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout: 10 * time.Second, MaxConnsPerHost: maxCalls, MaxIdleConnsPerHost: maxCalls}}}, nil
}

// isHere reports whether a host name or address is that of this machine, where a console needs no TLS.
func isHere(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback() || host == "localhost"
}

// stay prevents redirections: a token must not be sent to another server, and a change must not apply to another
// object.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do makes a call. path is made by Path, options are NAME for true or NAME=VALUE, body may be nil. The answer is
// decoded into answer unless that is nil. The error is an [Error] if the target refused, a [ConnectError] if it was
// not reached.
func (c *Client) Do(ctx context.Context, method, path string, options []string, body []byte, answer any) error {
	r, err := c.call(ctx, method, path, options, body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return &ConnectError{c.path, err}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// Stream begins a call with an endless answer, GET /v1/capture or /v1/trace. Options and errors are as in Do. The
// answer must be closed. It ends with ctx; if the target ends it, reading returns an [Error].
func (c *Client) Stream(ctx context.Context, path string, options []string) (io.ReadCloser, error) {
	r, err := c.call(ctx, http.MethodGet, path, options, nil)
	if err != nil {
		return nil, err
	}
	return endingBody{r}, nil
}

// An endingBody is the body of a stream.
type endingBody struct{ *http.Response }

func (b endingBody) Read(to []byte) (int, error) {
	n, err := b.Body.Read(to)
	if why := b.Trailer.Get(endedTrailer); errors.Is(err, io.EOF) && why != "" {
		err = &Error{Code: CodeFailed, Message: why}
	}
	return n, err
}

func (b endingBody) Close() error { return b.Body.Close() }

// call makes a call, and returns the answer unless the target refused.
func (c *Client) call(ctx context.Context, method, path string, options []string, body []byte) (*http.Response, error) {
	query := url.Values{}
	for _, o := range options {
		name, value, given := strings.Cut(o, "=")
		if !given {
			value = "true"
		}
		query.Set(name, value)
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	token, err := c.token()
	if err != nil {
		return nil, &ConnectError{c.path, err}
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := c.http.Do(q)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, &ConnectError{c.path, err}
	}
	if r.StatusCode == http.StatusOK {
		return r, nil
	}
	defer r.Body.Close()
	var e errorBody
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, &ConnectError{c.path, err}
	}
	if json.Unmarshal(text, &e) != nil || e.Error.Message == "" {
		e.Error = Error{Code: CodeFailed, Message: fmt.Sprintf("target at %s: %s", c.path, r.Status)}
	}
	return nil, &e.Error
}
