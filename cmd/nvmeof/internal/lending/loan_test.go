package lending

import (
	"errors"
	"testing"
)

// TestGiveBack checks that a loan is forgotten when its disconnection has succeeded, and not
// before.
func TestGiveBack(t *testing.T) {
	var l Loans
	one := Loan{Name: "nvme0", NQN: "nqn.2026-11.org.example:disk"}
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

// TestLoseWhileReturning checks that the end of a lender is no loss of a loan that is being
// given back.
func TestLoseWhileReturning(t *testing.T) {
	var l Loans
	one := Loan{Name: "nvme0"}
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
