package control

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestAuditPeer: an address that is not a process has no peer.
func TestAuditPeer(t *testing.T) {
	for addr, want := range map[string]bool{"1:2:3": true, "": false, "@": false, "1:2": false, "a:b:c": false} {
		if p := peerOf(&http.Request{RemoteAddr: addr}); (p.Process != nil) != want {
			t.Errorf("%s: %+v", addr, p)
		}
	}
	var got []Operation
	m := &Manager{cfg: Config{Audit: func(o Operation) { got = append(got, o) }}}
	AuditSignal(m, "SIGHUP", "rereadKeys", nil)
	AuditSignal(m, "SIGHUP", "rereadKeys", config.Problems{{Text: "wrong"}})
	AuditSignal(m, "SIGHUP", "rereadKeys", errors.New("else"))
	if len(got) != 3 || got[0].Result != "ok" || got[1].Result != string(CodeInvalid) || got[2].Error != "else" {
		t.Errorf("%+v", got)
	}
	AuditSignal(new(Manager), "SIGHUP", "rereadKeys", nil)
}

// TestAuditOfRefusals: a client that repeatedly requests what its role does not permit causes only a few lines of
// limited length, and lines of others are not lost.
func TestAuditOfRefusals(t *testing.T) {
	var audited []Operation
	r := newRig(t, func(c *Config) { c.Audit = func(o Operation) { audited = append(audited, o) } })
	long := strings.Repeat("%00", 5000)
	for range 10 * refusalBurst {
		if w := r.as(RoleRead, "DELETE", "/v1/subsystems/a/hosts/"+long+"?"+long, ""); w.Code != http.StatusForbidden {
			t.Fatal(w.Code)
		}
	}
	if n := len(audited); n < 1 || n > refusalBurst+1 {
		t.Errorf("%d lines", n)
	}
	for _, o := range audited {
		if len(o.Path) > maxAsked+3 || len(o.Options) > maxAsked+3 || len(o.Error) > maxAsked || o.By.Token != "t-read" {
			t.Errorf("a line with %d and %d bytes of what was asked, by %s", len(o.Path), len(o.Options), o.By.Token)
		}
	}
	audited = nil
	r.as(RoleOperate, "DELETE", "/v1/listeners/1", "")
	r.as(RoleAdmin, "DELETE", "/v1/listeners/1", "")
	if len(audited) != 2 || audited[0].Result != string(CodeForbidden) || audited[1].Result != string(CodeNotFound) {
		t.Errorf("of others: %+v", audited)
	}
}

// TestAuditOfKey: a key that was given in place of a file name is concealed.
func TestAuditOfKey(t *testing.T) {
	var audited []Operation
	r := newRig(t, func(c *Config) { c.Audit = func(o Operation) { audited = append(audited, o) } })
	const secret = "ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n"
	r.as(RoleAdmin, "POST", "/v1/config/save?file=%2Fno-such-folder%2FDHHC-1%3A00%3A"+secret+"%3A", "")
	r.as(RoleAdmin, "DELETE", "/v1/subsystems/a/hosts/DHHC-1:00:"+secret+":", "")
	for _, o := range audited {
		if text := fmt.Sprint(o); strings.Contains(text, secret) || !strings.Contains(o.Path+o.Options, "concealed") {
			t.Error(text)
		}
	}
	if len(audited) != 2 {
		t.Errorf("%d operations", len(audited))
	}
}

func TestRefusals(t *testing.T) {
	var r refusals
	now := time.Now()
	listed := func(name string, times int) (n, before int) {
		for range times {
			b, ok := r.add(name, now)
			if ok {
				n++
			}
			before += b
		}
		return n, before
	}
	if n, before := listed("a", refusalBurst+90); n != refusalBurst || before != 0 {
		t.Errorf("%d at once, %d before", n, before)
	}
	now = now.Add(refusalPause)
	if n, before := listed("a", 100); n != 1 || before != 90 {
		t.Errorf("%d after a while, %d before", n, before)
	}
	if n, _ := listed("b", 1); n != 1 {
		t.Error("another one has none")
	}
	for i := range 2 * maxRefusalsOf {
		listed(strconv.Itoa(i), 1)
	}
	if len(r.of) > maxRefusalsOf {
		t.Errorf("%d are kept", len(r.of))
	}
	now = now.Add(time.Hour)
	if n, _ := listed("a", 100); n != refusalBurst {
		t.Errorf("%d much later", n)
	}
}
