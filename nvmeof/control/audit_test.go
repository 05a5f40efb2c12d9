package control

import (
	"errors"
	"net/http"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestAuditPeer: what is no process is nobody.
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
