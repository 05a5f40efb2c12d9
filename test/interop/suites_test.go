package interop

import (
	"flag"
	"fmt"
	"slices"
	"testing"
)

var whole = flag.Bool("whole", false, "the suites over verbs in every setting, not in some (half an hour more), and longer cycles")

// A cell is a suite in one setting.
type cell struct {
	name string
	mtu  int
	run  func(*lab, *testing.T)
}

// A suite is a row of the table: tests of our program at the peer's end, over every transport. Over softroce a test of
// its own runs all cells in every run. Over verbs, in another guest, TestVerbsGuests runs the chosen cells, or all with
// -whole. With -peer=verbs or -peer=kernel the suite's own test runs all cells over that peer.
type suite struct {
	name  string
	cells []cell
	verbs []string // cells over verbs in every run
}

// suites returns the suites, in the order in which TestVerbsGuests runs them.
func suites() []suite {
	return []suite{linuxHost(), ourHost(), loss(), ourLoss(), restart()}
}

// test runs all cells with the peer of -peer.
func (s suite) test(t *testing.T) {
	needGuest(t)
	s.judge(t, newLab(t), func(string) bool { return true })
}

func (s suite) judge(t *testing.T, l *lab, chosen func(cell string) bool) {
	for _, c := range s.cells {
		if !chosen(c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if l.mtu != c.mtu {
				l.link(t, c.mtu)
			}
			c.run(l, t)
		})
	}
}

func TestLinuxHost(t *testing.T)     { linuxHost().test(t) }
func TestOurHost(t *testing.T)       { ourHost().test(t) }
func TestLoss(t *testing.T)          { loss().test(t) }
func TestOurLoss(t *testing.T)       { ourLoss().test(t) }
func TestTargetRestart(t *testing.T) { restart().test(t) }

// TestVerbsGuests runs our program over verbs on an rxe of its own, with the kernel's host and target in another guest.
func TestVerbsGuests(t *testing.T) {
	needGuest(t)
	l := newLabWith(t, peerVerbs)
	for _, s := range suites() {
		t.Run(s.name, func(t *testing.T) {
			s.judge(t, l, func(cell string) bool { return *whole || slices.Contains(s.verbs, cell) })
		})
	}
}

// TestSuites: every cell that a suite names for verbs exists.
func TestSuites(t *testing.T) {
	for _, s := range suites() {
		for _, name := range s.verbs {
			if !slices.ContainsFunc(s.cells, func(c cell) bool { return c.name == name }) {
				t.Errorf("%s has no %q", s.name, name)
			}
		}
		if len(s.verbs) == 0 {
			t.Errorf("%s is never run over verbs", s.name)
		}
	}
}

// settings returns all combinations of the storages, MTUs and address families.
func settings(storages ...string) (all []setting) {
	for _, mtu := range []int{1500, 9000} {
		for _, storage := range storages {
			for _, family := range []string{"ipv4", "ipv6"} {
				all = append(all, setting{storage, mtu, family})
			}
		}
	}
	return all
}

// cellsOf returns a cell for each setting.
func cellsOf(all []setting, run func(*lab, *testing.T, setting)) (cells []cell) {
	for _, s := range all {
		cells = append(cells, cell{
			name: fmt.Sprintf("%s,mtu=%d,%s", s.storage, s.mtu, s.family), mtu: s.mtu,
			run: func(l *lab, t *testing.T) { run(l, t, s) },
		})
	}
	return cells
}
