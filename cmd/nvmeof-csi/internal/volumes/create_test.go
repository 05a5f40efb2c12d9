package volumes

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

func TestFree(t *testing.T) {
	s := &config.Subsystem{Namespaces: []*config.Namespace{{NSID: 1}},
		Hosts: []*config.Host{{Namespaces: []*config.Right{{NSID: 2, Access: "write"}, {NSID: 4, Access: "none"}}}}}
	if got := free(s, nil); got != 3 {
		t.Errorf("%d is free, want 3", got)
	}
	if got := free(s, []int{3}); got != 4 {
		t.Errorf("%d is free beside 3, which was refused, want 4", got)
	}
}
