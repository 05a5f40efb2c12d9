package connections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/capture"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// lastWrite is how long a client has to accept pending output when a capture ends.
const lastWrite = time.Second

// serveCapture streams captured packets as pcapng, in the same form and with the same errors as the route of a target
// ([control.Client.Stream]).
func serveCapture(h *Holder, devices func() []rdmatransport.Device, w http.ResponseWriter, r *http.Request) {
	cfg := capture.Config{Program: "nvmeof host", Pairs: func() []capture.Pair { return nil }, Snap: capture.DefaultSnap, About: about(h.Info())}
	seconds, err := captureOptions(&cfg, r.URL.Query())
	if err != nil {
		captureError(w, control.CodeInvalid, http.StatusBadRequest, err)
		return
	}
	cfg.Sources = func() []capture.Source { return captureSources(devices()) }
	if len(cfg.Sources()) == 0 {
		captureError(w, control.CodeFailed, http.StatusConflict, errors.New("no device of this host can capture packets: verbs devices process them in hardware"))
		return
	}
	ctx := r.Context()
	to := http.NewResponseController(w)
	_ = to.SetReadDeadline(time.Time{})   // a client that sends nothing more is still connected
	defer context.AfterFunc(ctx, func() { // once: at shutdown the server does not wait for a client that does not read
		_ = to.SetWriteDeadline(time.Now().Add(lastWrite))
	})()
	if seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	begun := false
	err = capture.Stream(ctx, cfg, func(b []byte) error {
		begun = true
		if _, err := w.Write(b); err != nil {
			return err
		}
		return to.Flush()
	})
	if errors.Is(err, rdmatransport.ErrCapturing) {
		err = errors.New("another capture is running: end it first")
	}
	if err != nil && !begun {
		captureError(w, control.CodeFailed, http.StatusConflict, err)
	}
}

func captureSources(devices []rdmatransport.Device) (sources []capture.Source) {
	for _, d := range devices {
		if c, ok := d.(rdmatransport.Capturer); ok {
			sources = append(sources, capture.Source{Name: d.Attrs().Name, Device: c})
		}
	}
	return sources
}

// captureOptions parses the options of a query.
func captureOptions(cfg *capture.Config, q url.Values) (seconds int, err error) {
	for name, values := range q {
		n, err := strconv.ParseUint(values[0], 10, 31)
		if err != nil {
			return 0, fmt.Errorf("option %s is %q: want a number", name, values[0])
		}
		switch name {
		case "qpn":
			cfg.QPN = rdmatransport.QPN(n)
		case "snaplen":
			cfg.Snap = int(n)
		case "count":
			cfg.Count = int(n)
		case "seconds":
			seconds = int(n)
		default:
			return 0, fmt.Errorf("option %q is not supported for a host", name)
		}
	}
	return seconds, nil
}

// about describes what a process has connected.
func about(p Process) string {
	text := fmt.Sprintf("process %d", p.PID)
	for _, s := range p.Subsystems {
		text += fmt.Sprintf("\nhost %s, subsystem %s", s.HostNQN, s.NQN)
		for _, c := range s.Controllers {
			text += fmt.Sprintf(", %s: controller %d at %s", c.Name, c.ID, c.Address())
		}
	}
	return text
}

func captureError(w http.ResponseWriter, code control.Code, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": control.Error{Code: code, Message: err.Error()}})
}
