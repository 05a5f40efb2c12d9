package gateway

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/revision"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestCrowdedRevision: a text that is not a valid document, and takes long to parse, is parsed once while it is the current
// one, and the next document is followed.
func TestCrowdedRevision(t *testing.T) {
	if revision.MaxText != config.MaxText {
		t.Errorf("a revision may have %d bytes, and a document %d", revision.MaxText, config.MaxText)
	}
	s := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Minute)
	m := still(t, s, "gw1")
	var c revision.Cache
	write := func(base int64, text string) {
		t.Helper()
		if _, err := c.Write(t.Context(), s, base, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write(0, `{"version":1,"subsystems":[`+strings.Repeat("[[]],", 1<<19)+"0]}")
	follow := func() (took time.Duration, err error) {
		before := processorTime(t)
		_, err = control.Follow(t.Context(), m)
		return processorTime(t) - before, err
	}
	took, first := follow()
	if first == nil || !strings.Contains(first.Error(), "more than 1048576 values") {
		t.Fatalf("%.200v", first)
	}
	var again time.Duration
	for range 10 {
		more, err := follow()
		if err == nil || err.Error() != first.Error() {
			t.Errorf("%.200v", err)
		}
		again += more
	}
	if again > took {
		t.Errorf("it takes %v once, and %v ten times more", took, again)
	}
	write(1, `{"version":1,"subsystems":[{"nqn":"a"}]}`)
	if _, err := follow(); err != nil || len(m.Document().Subsystems) != 1 {
		t.Errorf("after a revision that can be read: %v", err)
	}
}
