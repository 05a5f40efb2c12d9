package control

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// after returns a Manager that continues r, before it has adopted the hosts.
func (r *rig) after(change func(*Config)) *rig {
	r.t.Helper()
	x, err := Export(r.t.Context(), r.Manager)
	if err != nil {
		r.t.Fatal(err)
	}
	r.exported()
	next := newRig(r.t, func(c *Config) {
		c.Moved = x
		c.Device = func(a netip.Addr, _ config.Transport) (rdmatransport.Device, error) {
			return softroce.Open(softroce.Config{Addr: a, Moved: x.Target.Devices[0].Moved})
		}
		change(c)
	})
	if _, err := next.Apply(x.Document, Options{Wait: true}); err != nil {
		r.t.Fatal(err)
	}
	return next
}

// TestLacking: what the previous target served and this one cannot is reported before hosts notice. A namespace
// that waited there is no loss.
func TestLacking(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(r.doc(memoryDoc))
	none := func(*Config) {}
	refuse := func(c *Config) {
		c.Open = func(*config.Namespace, *memory.Pool) (backend.Store, []string, error) {
			return nil, nil, errors.New("not today")
		}
	}
	if err := Lacking(r.Manager); err != nil {
		t.Errorf("of what was nobody's before: %v", err)
	}
	next := r.after(none)
	if err := Lacking(next.Manager); err != nil {
		t.Error(err)
	}
	next.exported = func() { next.write("r", []byte("rubbish")) }
	next.dir = r.dir
	next = next.after(none)
	if err := Lacking(next.Manager); err == nil || !strings.Contains(err.Error(), "cannot serve namespace 2 of a, which the running target serves to hosts: ") || !strings.Contains(err.Error(), "reservations") {
		t.Errorf("its reservations are damaged: %v", err)
	}
	next = next.after(refuse)
	if err := Lacking(next.Manager); err != nil {
		t.Errorf("it waited there too: %v", err)
	}
}

// TestLackingKey: a connected host whose key is no longer readable would be refused.
func TestLackingKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newReturner(r)
	h.options.DHCHAPSecret = r.newKey("key3", "key3.ctrl", "key")
	r.apply(r.doc(keyedHosts))
	h.options.NQN, h.options.HostNQN = "a", "h1"
	con := h.until(waitForHost)
	key := filepath.Join(r.dir, "key")
	if err := errors.Join(os.Rename(key, key+".away"), os.Remove(key+"3")); err != nil {
		t.Fatal(err)
	}
	next := r.after(func(*Config) {})
	if err := Lacking(next.Manager); err == nil || !strings.Contains(err.Error(), "cannot admit host h1 of a, which is connected to the running target: ") || strings.Contains(err.Error(), "more") {
		t.Error(err)
	}
	if err := os.Rename(key+".away", key); err != nil {
		t.Fatal(err)
	}
	if _, err := next.RereadKeys(); err == nil {
		t.Error("a key that is not there is read")
	}
	if err := Lacking(next.Manager); err != nil {
		t.Error(err)
	}
	begin, err := Adopt(next.Manager)
	if err != nil {
		t.Fatal(err)
	}
	begin()
	if err := con.Disconnect(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestChangedAsItIsHandedOver: the error of a change during a takeover says to try again, and not that the target
// stops.
func TestChangedAsItIsHandedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(r.doc(memoryDoc))
	x, err := Export(t.Context(), r.Manager)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	Handler(r.Manager).ServeHTTP(w, httptest.NewRequest("DELETE", "/v1/subsystems/a", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "is being handed over to another process, and nothing was changed: try again") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
