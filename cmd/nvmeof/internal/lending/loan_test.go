package lending

import (
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
)

// TestGiveBack checks that a loan is removed once its disconnection has succeeded, and not before.
func TestGiveBack(t *testing.T) {
	var l Loans
	one := Loan{Lender: &connections.Process{Socket: "/run/1.0.sock"}, Name: "nvme0", NQN: "nqn.2026-11.org.example:disk"}
	l.Add(one)
	refused := errors.New("the lender does not answer")
	if mine, err := l.GiveBack(one, func() error { return refused }); !mine || !errors.Is(err, refused) {
		t.Fatalf("giveBack: %v, %v; want true and %v", mine, err, refused)
	}
	if len(l.List()) != 1 {
		t.Fatal("a loan was forgotten whose disconnection failed")
	}
	mine, err := l.GiveBack(one, func() error {
		if again, _ := l.GiveBack(one, func() error { t.Error("disconnected twice at a time"); return nil }); again {
			t.Error("two end one loan at a time")
		}
		if len(l.List()) != 1 {
			t.Error("the loan was forgotten before it was disconnected")
		}
		return nil
	})
	if !mine || err != nil || len(l.List()) != 0 {
		t.Fatalf("giveBack: %v, %v, %d left; want true, no error, none", mine, err, len(l.List()))
	}
}

// TestLoseWhileReturning checks that the end of a lender is not a loss for a loan that is being given back.
func TestLoseWhileReturning(t *testing.T) {
	var l Loans
	one := Loan{Lender: &connections.Process{Socket: "/run/1.0.sock"}, Name: "nvme0"}
	l.Add(one)
	_, _ = l.GiveBack(one, func() error {
		if l.Lose(one) {
			t.Error("a loan that is given back counts as lost")
		}
		return nil
	})
	l.Add(one)
	if !l.Lose(one) {
		t.Error("a loan whose lender ended does not count as lost")
	}
}

// TestHeld checks that a controller is held for the process whose socket it names. A controller without a borrower is
// the lender's own, and a loan without one is not held by any lender.
func TestHeld(t *testing.T) {
	for _, test := range []struct {
		borrower, of string
		held         bool
	}{
		{"/run/6.0.sock", "/run/6.0.sock", true},
		{"/elsewhere/6.0.sock", "/run/6.0.sock", true},
		{"/run/7.0.sock", "/run/6.0.sock", false},
		{"", "/run/6.0.sock", false},
		{"/run/6.0.sock", "", false},
		{"", "", false},
	} {
		l := Loan{Name: "nvme0", Borrower: test.of}
		now := &connections.Process{Subsystems: []connections.SubsystemInfo{{Controllers: []connections.ControllerInfo{{Name: "nvme0", Borrower: test.borrower}}}}}
		held, why := l.Held(now)
		if held != test.held || held != (why == nil) || !held && !errors.Is(why, ErrReplaced) {
			t.Errorf("a controller for %q, lent to %q, is held: %v, %v", test.borrower, test.of, held, why)
		}
	}
}

// TestReplaced checks that a loan ends when its lender gives its name to another controller.
func TestReplaced(t *testing.T) {
	lender := func(name string) *connections.Process { return &connections.Process{Socket: name} }
	var l Loans
	if ended := l.Add(Loan{Lender: lender("/run/1.0.sock"), Name: "nvme0", NQN: "a"}); len(ended) > 0 {
		t.Errorf("%v has ended", ended)
	}
	l.Add(Loan{Lender: lender("/run/2.0.sock"), Name: "nvme0", NQN: "b"})
	l.Add(Loan{Lender: lender("/run/1.0.sock"), Name: "nvme1", NQN: "c"})
	ended := l.Add(Loan{Lender: lender("/run/1.0.sock"), Name: "nvme0", NQN: "d"})
	if len(ended) != 1 || ended[0].NQN != "a" || len(l.List()) != 3 {
		t.Errorf("%v has ended, %v are left", ended, l.List())
	}
	one := l.List()[0]
	_, _ = l.GiveBack(one, func() error {
		if ended := l.Add(Loan{Lender: one.Lender, Name: one.Name}); len(ended) > 0 {
			t.Errorf("%v has ended, as it was given back", ended)
		}
		return nil
	})
}
