package connections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/nvmeof-go/nvmeof/internal/socketfile"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Services are the operations that a process performs for others that connect from an address at which it is the RoCE
// endpoint. Options are those of nvme connect by their long names.
type Services struct {
	// Connect connects on behalf of borrower, until that process ends.
	Connect  func(ctx context.Context, options map[string]string, borrower *Process) (name string, err error)
	Discover func(ctx context.Context, options map[string]string) (log []byte, err error) // the log page
	// Devices returns the devices of the process, whose packets can be captured. It may be nil.
	Devices func() []rdmatransport.Device
	// Recall disconnects those of the wanted controllers that other processes hold for this one, and returns their
	// names. It may be nil.
	Recall func(ctx context.Context, wanted func(SubsystemInfo, ControllerInfo) bool) (names []string, err error)
}

// A Server answers requests to a holder.
type Server struct {
	path  string
	http  *http.Server
	end   context.CancelFunc // cancels captures, and connections and discoveries for other processes
	tasks sync.WaitGroup
}

// maxConnections limits the connections to the socket; more wait in its backlog. Each process that follows this one
// ([Process.AwaitEnd]) keeps one open: at most one for each controller number.
const maxConnections = 3 * maxNumber

// maxRequests limits the requests that are served at a time; more wait.
const maxRequests = 128

// idleTime is how long a connection without a request stays open.
const idleTime = time.Minute

// maxBody is the maximum size of a request's body in bytes.
const maxBody = 64 << 10

// Serve starts to answer requests at a socket of mode 0600 in the holder's directory.
func Serve(h *Holder, services Services) (*Server, error) {
	dir := h.config.Dir
	folder := func() error { return makeDir(dir, os.Getuid()) }
	if err := folder(); err != nil {
		return nil, err
	}
	l, err := listen(dir)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	s := &Server{path: l.Path(), end: end}
	s.http = &http.Server{
		BaseContext: func(net.Listener) context.Context { return ctx },
		Handler:     handler(h, services), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: idleTime,
		MaxHeaderBytes: 64 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	s.tasks.Go(func() { // ends when Close closes the listener
		if err := s.http.Serve(netutil.LimitListener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			h.config.Log(fmt.Sprintf("control socket: %v", err))
		}
	})
	s.tasks.Go(func() { // ends when Close closes the listener
		l.Stay(folder, func(err error) {
			if err == nil {
				h.renewClaims() // whatever removed the socket may have removed them too
				h.config.Log(fmt.Sprintf("control socket: %s was removed; created again", l.Path()))
				return
			}
			h.config.Log(fmt.Sprintf("control socket: its file was removed, so that commands do not find this process: %v", err))
		})
	})
	return s, nil
}

// listen creates a socket with an unused name.
func listen(dir string) (*socketfile.Listener, error) {
	for n := 0; ; n++ {
		s, err := socketfile.NewListener(filepath.Join(dir, fmt.Sprintf("%d.%d%s", os.Getpid(), n, suffix)))
		if errors.As(err, new(*socketfile.TakenError)) {
			continue // another holder of this process
		}
		return s, err
	}
}

// Path returns the path of the control socket.
func (s *Server) Path() string { return s.path }

// Close cancels captures, and connections and discoveries for other processes. It lets other requests end, and removes
// the socket.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s.end()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	s.tasks.Wait()
	return err
}

// A disconnectRequest selects the controllers that match all of the given fields.
type disconnectRequest struct {
	NQN       string `json:"nqn,omitempty"`
	Device    string `json:"device,omitempty"`
	Transport string `json:"transport,omitempty"`
	// Lent selects only controllers that other processes hold for this one, and none of its own. Otherwise it would see
	// its own controller end, and connect again.
	Lent bool `json:"lent,omitempty"`
}

// A policyRequest sets the iopolicy of the subsystems that match all of the given fields.
type policyRequest struct {
	NQN    string `json:"nqn,omitempty"`
	Device string `json:"device,omitempty"` // of the subsystem, of a controller or a namespace
	Policy string `json:"iopolicy"`
}

func (q policyRequest) wants(s SubsystemInfo) bool {
	return (q.NQN == "" || q.NQN == s.NQN) && (q.Device == "" || controllerName(q.Device) == s.Name || s.Has(q.Device))
}

// A disconnected response names the controllers that were disconnected, or other objects that were changed.
type disconnected struct {
	Names []string `json:"names"`
}

// A discovered response contains a discovery log page.
type discovered struct {
	Log []byte `json:"log"`
}

type failure struct {
	Error   string   `json:"error"`
	Passing bool     `json:"passing,omitempty"` // a retry a little later may succeed
	Names   []string `json:"names,omitempty"`   // disconnected or changed in spite of the error
}

func handler(h *Holder, services Services) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/process", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.Info(), nil) })
	mux.HandleFunc("POST /v1/disconnect", func(w http.ResponseWriter, r *http.Request) { serveDisconnect(h, services.Recall, w, r) })
	mux.HandleFunc("POST /v1/iopolicy", func(w http.ResponseWriter, r *http.Request) {
		var q policyRequest
		if !request(w, r, &q) {
			return
		}
		names, err := h.SetPolicy(q.Policy, q.wants)
		answer(w, disconnected{names}, err)
	})
	mux.HandleFunc("POST /v1/connect", func(w http.ResponseWriter, r *http.Request) {
		var options map[string]string
		if !request(w, r, &options) {
			return
		}
		borrower, ok := borrowerOf(w, h.config.Dir, r)
		if !ok {
			return
		}
		name, err := services.Connect(r.Context(), options, borrower)
		answer(w, disconnected{[]string{name}}, err)
	})
	mux.HandleFunc("POST /v1/discover", func(w http.ResponseWriter, r *http.Request) {
		var options map[string]string
		if !request(w, r, &options) {
			return
		}
		log, err := services.Discover(r.Context(), options)
		answer(w, discovered{log}, err)
	})
	whole := http.NewServeMux()
	whole.Handle("/", limited(mux, maxRequests))
	if services.Devices != nil {
		whole.HandleFunc("GET /v1/capture", func(w http.ResponseWriter, r *http.Request) { serveCapture(h, services.Devices, w, r) })
	}
	whole.HandleFunc("GET /v1/alive", func(http.ResponseWriter, *http.Request) {})
	return whole
}

// serveDisconnect disconnects the controllers that a request selects: those that the holder has, or those that other
// processes hold for this one.
func serveDisconnect(h *Holder, recall func(context.Context, func(SubsystemInfo, ControllerInfo) bool) ([]string, error), w http.ResponseWriter, r *http.Request) {
	var q disconnectRequest
	if !request(w, r, &q) {
		return
	}
	borrower, ok := borrowerOf(w, h.config.Dir, r)
	if !ok {
		return
	}
	if !q.Lent {
		names, err := h.Disconnect(func(s SubsystemInfo, c ControllerInfo) bool {
			return q.wants(s, c) && (borrower == nil || c.Borrower == borrower.Socket)
		})
		answer(w, disconnected{names}, err)
		return
	}
	var names []string
	var err error
	if recall != nil {
		// Without these controllers this process may have nothing left, and end before the last response is here. Close
		// lets this request finish, so that the response still names what was disconnected.
		names, err = recall(context.WithoutCancel(r.Context()), q.wants)
	}
	answer(w, disconnected{names}, err)
}

// limited returns a handler that serves at most that many requests at a time.
func limited(h http.Handler, most int) http.Handler {
	answering := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case answering <- struct{}{}:
			defer func() { <-answering }()
			h.ServeHTTP(w, r)
		case <-r.Context().Done(): // the client has gone
		}
	})
}

// borrowerOf returns the process that a request names as the borrower by its control socket in the directory, or nil
// if it names none. It returns false if the borrower is invalid and an error response was sent.
func borrowerOf(w http.ResponseWriter, dir string, r *http.Request) (*Process, bool) {
	name := r.URL.Query().Get(borrowerKey)
	if name == "" {
		return nil, true
	}
	if is, err := filepath.Match(sockets, name); err != nil || !is {
		wrong := fmt.Sprintf("%s %q: want the name of a control socket in %s", borrowerKey, name, dir)
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(failure{Error: wrong})
		return nil, false
	}
	return &Process{Socket: filepath.Join(dir, name)}, true
}

func (q disconnectRequest) wants(s SubsystemInfo, c ControllerInfo) bool {
	return (q.NQN == "" || q.NQN == s.NQN) && (q.Device == "" || controllerName(q.Device) == c.Name) &&
		(q.Transport == "" || q.Transport == c.Transport)
}

func request(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(failure{Error: err.Error()})
		return false
	}
	return true
}

func answer(w http.ResponseWriter, value any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		f := failure{Error: err.Error(), Passing: Passing(err)}
		if done, ok := value.(disconnected); ok {
			f.Names = done.Names
		}
		value = f
	}
	_ = json.NewEncoder(w).Encode(value)
}
