package connections

import (
	"errors"
	"testing"
	"testing/synctest"
)

// TestEnded checks that the end of a controller is reported before another one has its name.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ended := map[string]error{}
		r.holder.config.Ended = func(name string, why error) {
			ended[name] = why
			for n := range 2 {
				if c, err := tryClaim(r.holder.config.Dir, n); c != nil || err != nil {
					t.Errorf("somebody else could have the name nvme%d: %v", n, err)
				}
			}
		}
		r.connect("a", "192.0.2.1", "nvme0")
		r.connect("a", "192.0.2.2", "nvme1")
		lost := errors.New("gave up")
		r.controller("nvme1").set(Dead, lost)
		r.shape("nvme-subsys0(nvme0: )")
		r.holder.config.Ended = func(name string, why error) { ended[name] = why }
		r.connect("b", "192.0.2.3", "nvme1")
		if ended["nvme1"] != lost || r.holder.Info().Lost["nvme1"] != "" {
			t.Errorf("%v have ended, and lost are %v", ended, r.holder.Info().Lost)
		}
		r.controller("nvme0").set(Dead, nil)
		synctest.Wait()
		if why, is := ended["nvme0"]; !is || why != nil {
			t.Errorf("%v have ended", ended)
		}
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
	})
}
