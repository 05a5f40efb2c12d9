package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// still returns a gateway that does not run: it serves nothing, and follows when a test calls for it.
func still(t testing.TB, s state.Store, name string) *control.Manager {
	t.Helper()
	doc, _, err := config.Parse("test", fmt.Appendf(nil, "version: 1\ngroup: {store: etcd://127.0.0.1/g, gateway: %s}\n", name))
	if err != nil {
		t.Fatal(err)
	}
	g, cfg := complete(t, s, doc)
	m := control.New(cfg)
	t.Cleanup(func() {
		_ = m.Close()
		_ = g.Close()
	})
	if _, err := m.Apply(doc, control.Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	return m
}

// processorTime returns the processor time that the process has used.
func processorTime(t testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkNamespace measures the processor time for creating one more namespace beside 10,000: at the gateway that gets the
// request, and at another one that follows. Neither serves any of them.
func BenchmarkNamespace(b *testing.B) {
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	first, other := still(b, store.Open(time.Hour), "gw1"), still(b, store.Open(time.Hour), "gw2")
	dir := b.TempDir()
	var text strings.Builder
	text.WriteString("version: 1\nsubsystems:\n")
	for s := range 10 {
		fmt.Fprintf(&text, "  - nqn: nqn.2026-11.org.example:s%d\n    allow-any-host: true\n    namespaces:\n", s)
		for n := range 1000 {
			if err := os.WriteFile(fmt.Sprintf("%s/%d-%d", dir, s, n), make([]byte, 4096), 0o600); err != nil {
				b.Fatal(err)
			}
			fmt.Fprintf(&text, "      - {nsid: %d, ana-group: %d, file: {path: %s/%d-%d}, fence: lease}\n", n+1, 1+n%128, dir, s, n)
		}
	}
	doc, _, err := config.Parse("test", []byte(text.String()))
	if err == nil {
		_, err = first.Apply(doc, control.Options{})
	}
	if err == nil {
		_, err = control.Follow(b.Context(), other)
	}
	if err == nil {
		err = os.WriteFile(dir+"/new", make([]byte, 4096), 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	api := control.Handler(first)
	var created, followed time.Duration
	for i := 0; b.Loop(); i++ {
		method, path, body := "POST", control.Path("subsystems", "nqn.2026-11.org.example:s3", "namespaces"), fmt.Sprintf(`{"nsid": 2000, "ana-group": 1, "file": {"path": "%s/new"}, "fence": "lease"}`, dir)
		if i%2 == 1 {
			method, path, body = "DELETE", path+"/2000", ""
		}
		began := processorTime(b)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		if w.Code != 200 {
			b.Fatal(w.Code, w.Body)
		}
		created += processorTime(b) - began
		began = processorTime(b)
		if _, err := control.Follow(b.Context(), other); err != nil {
			b.Fatal(err)
		}
		followed += processorTime(b) - began
	}
	b.ReportMetric(float64(created.Microseconds())/1000/float64(b.N), "ms/edit")
	b.ReportMetric(float64(followed.Microseconds())/1000/float64(b.N), "ms/follow")
}

// TestFollow makes each kind of change to the shared document. A gateway that follows, and one that starts later, have
// the same result as the one that made the change, and the previous document is not modified.
func TestFollow(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	first, other := still(t, store.Open(time.Hour), "gw1"), still(t, store.Open(time.Hour), "gw2")
	dir, nqn := t.TempDir(), "nqn.2026-11.org.example:s"
	var text strings.Builder
	fmt.Fprintf(&text, "version: 1\nsubsystems:\n  - nqn: %s\n    hosts: [{nqn: nqn.2026-11.org.example:h}]\n    namespaces:\n", nqn)
	for n := range 100 {
		fmt.Fprintf(&text, "      - {nsid: %d, file: {path: %s/%d}, fence: lease}\n", n+1, dir, n)
	}
	doc, _, err := config.Parse("test", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	api := control.Handler(first)
	call := func(method, body string, path ...string) func() error {
		return func() error {
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequest(method, control.Path(path...), strings.NewReader(body)))
			if w.Code != 200 {
				return fmt.Errorf("%s %q: %d %s", method, path, w.Code, w.Body)
			}
			return nil
		}
	}
	edit := func(m *control.Manager, f func(d *config.Document)) func() error {
		return func() error {
			_, err := m.Edit(func(d *config.Document) error { f(d); return nil }, control.Options{})
			return err
		}
	}
	for i, change := range []func() error{
		func() error {
			_, err := first.Apply(doc, control.Options{})
			doc.Subsystems[0].Namespaces[0].NSID = 999
			return err
		},
		call("POST", fmt.Sprintf(`{"nsid": 200, "file": {"path": "%s/new"}, "fence": "lease"}`, dir), "subsystems", nqn, "namespaces"),
		call("PATCH", `{"read-only": true}`, "subsystems", nqn, "namespaces", "7"),
		call("PATCH", `{"file": {"size": "1MiB"}}`, "subsystems", nqn, "namespaces", "8"),
		call("PATCH", `{"read-only": null, "ana-group": 99}`, "subsystems", nqn, "namespaces", "7"),
		call("DELETE", "", "subsystems", nqn, "namespaces", "9"),
		call("PUT", `{}`, "subsystems", nqn, "namespaces", "8", "hosts", "nqn.2026-11.org.example:other"),
		call("DELETE", "", "subsystems", nqn, "namespaces", "8", "hosts", "nqn.2026-11.org.example:h"),
		call("PATCH", `{"model": "other"}`, "subsystems", nqn),
		call("POST", `{"nqn": "nqn.2026-11.org.example:t", "allow-any-host": true}`, "subsystems"),
		edit(first, func(d *config.Document) { d.Subsystems[0].Namespaces[3].ReadOnly = true }),
		edit(first, func(d *config.Document) { d.Subsystems[0].Namespaces[4].File.Path = config.Path(dir + "/moved") }),
		edit(other, func(d *config.Document) { d.Subsystems[0].Namespaces[5].File.Thin = true }),
		edit(first, func(d *config.Document) { d.Subsystems[0].Namespaces = d.Subsystems[0].Namespaces[50:] }),
		call("DELETE", "", "subsystems", nqn),
	} {
		was := control.Present(first)
		before := string(was.JSON())
		if err := change(); err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
		if now := string(was.JSON()); now != before {
			t.Errorf("change %d: the document before is another now:\n%s\nbut was\n%s", i, now, before)
		}
		begins := still(t, store.Open(time.Hour), fmt.Sprint("new", i))
		var all []string
		for _, m := range []*control.Manager{first, other, begins} {
			if _, err := control.Follow(t.Context(), m); err != nil {
				t.Fatalf("change %d: %v", i, err)
			}
			all = append(all, string(m.Document().Shared().JSON()))
		}
		if all[0] != all[1] || all[0] != all[2] || all[0] == string(was.Shared().JSON()) {
			t.Fatalf("change %d: who made it has\n%s\nwho follows has\n%s\nwho begins has\n%s", i, all[0], all[1], all[2])
		}
	}
}

// A lateGroup returns its document only when the test permits it.
type lateGroup struct {
	control.Group
	may <-chan error
}

func (g lateGroup) Latest(ctx context.Context) (int64, *config.Document, error) {
	select {
	case err := <-g.may:
		if err != nil {
			return 0, nil, err
		}
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	return g.Group.Latest(ctx)
}

// TestStarting: a gateway that does not have the configuration yet is starting to the others, and sick if it cannot get it.
func TestStarting(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(3, 1))))
	a := start(t, store.Open(time.Second), "gw1", 237)
	may := make(chan error, 1)
	b := listen(t, store.Open(time.Second), "gw2", 238, func(c *control.Config) { c.Group = lateGroup{c.Group, may} })
	b.begin()
	a.until(t, "gw2 is starting", func(s *control.GroupStatus) bool {
		if len(s.Gateways) == 2 && s.Gateways[1].State == "sick" {
			t.Fatal("it is sick as it starts")
		}
		return len(s.Gateways) == 2 && s.Gateways[1].State == "starting" && a.Stats().Members["starting"] == 1
	})
	may <- errors.New("the document cannot be read")
	a.until(t, "gw2 is sick", func(s *control.GroupStatus) bool { return len(s.Gateways) == 2 && s.Gateways[1].State == "sick" })
	close(may)
	a.until(t, "gw2 is alive", func(s *control.GroupStatus) bool { return s.Gateways[1].State == "alive" })
}
