package targetcommand

import (
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestAnnounceWaiting checks that a waiting export is named once, whether or not its reason names it.
func TestAnnounceWaiting(t *testing.T) {
	var out strings.Builder
	d := &Daemon{Out: &out}
	d.announceWaiting([]control.Waiting{
		{NSID: 1, Export: "memory", Why: "namespace 1 (memory): its reservations are damaged"},
		{NSID: 2, Export: "/disk", Why: "open store: no such file"},
		{Host: "h", Why: "its key is missing"},
	})
	const want = "waiting: namespace 1 (memory): its reservations are damaged\nwaiting: namespace 2 (/disk): open store: no such file\nwaiting: host h: its key is missing\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}
