package connections

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRestless checks that a target whose controllers come and go, and whose namespaces fail differently each time,
// cannot fill a log: beyond a burst only a few lines a second are printed, and the number of lines left out is
// reported. Other subsystems have their own limit, and reconnecting does not reset it.
func TestRestless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 100
		r := newRig(t)
		r.connect("a", "192.0.2.1", "nvme0")
		r.connect("b", "192.0.2.1", "nvme1")
		began, all := time.Now(), 0
		for i := range 2 * LineBurst / each {
			s, c := r.fake.subs["a"], r.controller("nvme0")
			var errs []error
			for n := range each {
				errs = append(errs, fmt.Errorf("namespace %d: no, for the time number %d", n, i))
			}
			r.fake.mu.Lock()
			s.err = errors.Join(errs...)
			r.fake.mu.Unlock()
			c.set(Connecting, errors.New("cut off"))
			synctest.Wait()
			r.fake.mu.Lock()
			s.err = nil
			r.fake.mu.Unlock()
			c.set(Live, nil)
			synctest.Wait()
			all += each + 2
		}
		time.Sleep(leftTime)
		synctest.Wait()
		last := fmt.Sprintf("nvme-subsys0 changes too often: %d messages about it were suppressed", all-LineBurst)
		if len(r.log) != LineBurst+1 || r.log[LineBurst] != last {
			t.Errorf("%d lines are printed, the last is %q, want %d and %q", len(r.log), r.log[len(r.log)-1], LineBurst+1, last)
		}
		quiet := len(r.log)
		r.controller("nvme1").set(Connecting, errors.New("cut off"))
		synctest.Wait()
		if len(r.log) != quiet+1 {
			t.Errorf("of another subsystem is printed %q", r.log[quiet:])
		}
		r.controller("nvme0").set(Dead, nil)
		synctest.Wait()
		r.connect("a", "192.0.2.1", "nvme0")
		quiet = len(r.log)
		for range LineBurst {
			r.controller("nvme0").set(Connecting, errors.New("cut off"))
			synctest.Wait()
			r.controller("nvme0").set(Live, nil)
			synctest.Wait()
		}
		if most := int(time.Since(began)/LineTime) + 1; len(r.log)-quiet > most {
			t.Errorf("%d lines are printed after it was connected again, of which %d may be", len(r.log)-quiet, most)
		}
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
		if last := r.log[len(r.log)-1]; !strings.Contains(last, "suppressed") {
			t.Errorf("at the end it says %q", last)
		}
	})
}
