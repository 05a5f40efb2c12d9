package connections

import (
	"net/http"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// TestGiveBack checks that giving back a controller does not end another process's controller of that name, unless the
// request comes from a version that does not name the borrower.
func TestGiveBack(t *testing.T) {
	h := New(Config{Dir: filepath.Join(t.TempDir(), "run"), Connector: &fake{subs: map[nvmeof.NQN]*fakeSubsystem{}}})
	s, err := Serve(h, Services{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &Process{Socket: s.Path()}
	connect := func() {
		t.Helper()
		lent := path("a", "192.0.2.1")
		lent.Borrower = filepath.Join(h.config.Dir, "8.0.sock")
		if name, err := h.Connect(t.Context(), lent); name != "nvme0" || err != nil {
			t.Fatalf("%s, %v", name, err)
		}
	}
	want := func(controllers int) {
		t.Helper()
		if now, err := p.Info(t.Context()); err != nil || len(now.Subsystems) != controllers {
			t.Fatalf("%d left, %v; want %d", len(now.Subsystems), err, controllers)
		}
	}
	connect()
	if code := post(t, p.Socket, "/v1/disconnect?"+url.Values{borrowerKey: {"7.0.sock"}}.Encode(), `{"device":"nvme0"}`); code != http.StatusOK {
		t.Errorf("answered with %d", code)
	}
	want(1)
	if code := post(t, p.Socket, "/v1/disconnect?"+url.Values{borrowerKey: {"../8.0.sock"}}.Encode(), `{"device":"nvme0"}`); code != http.StatusBadRequest {
		t.Errorf("answered with %d", code)
	}
	want(1)
	if _, err := p.GiveBack(t.Context(), "nvme0", ""); err == nil {
		t.Error("nobody gives a controller back")
	}
	if _, err := p.Connect(t.Context(), nil, ""); err == nil {
		t.Error("a controller is connected for nobody")
	}
	want(1)
	if names, err := p.GiveBack(t.Context(), "nvme0", "/elsewhere/8.0.sock"); len(names) != 1 || err != nil {
		t.Errorf("given back: %q, %v", names, err)
	}
	want(0)
	connect()
	if code := post(t, p.Socket, "/v1/disconnect", `{"device":"nvme0"}`); code != http.StatusOK {
		t.Errorf("answered with %d", code)
	}
	want(0)
}
