package auth

import "fmt"

// reasonCode is the one Reason Code there is: authentication failed. What
// distinguishes is the Reason Code Explanation.
const reasonCode = 1

// A Reason is the Reason Code Explanation of AUTH_Failure1 and AUTH_Failure2.
type Reason uint8

const (
	ReasonFailed   Reason = 1 // the response is not the right one
	ReasonProtocol Reason = 2 // no protocol that both know
	ReasonChannel  Reason = 3 // secure channel concatenation mismatch
	ReasonHash     Reason = 4 // no hash that both use
	ReasonGroup    Reason = 5 // no group that both use
	ReasonPayload  Reason = 6 // incorrect payload
	ReasonMessage  Reason = 7 // incorrect protocol message
)

var reasons = [...]string{
	ReasonFailed: "authentication failed", ReasonProtocol: "authentication protocol not usable",
	ReasonChannel: "secure channel concatenation mismatch", ReasonHash: "hash function not usable",
	ReasonGroup: "Diffie-Hellman group not usable", ReasonPayload: "incorrect payload",
	ReasonMessage: "incorrect protocol message",
}

func (r Reason) String() string {
	if r == 0 || int(r) >= len(reasons) {
		return fmt.Sprintf("reason %d", uint8(r))
	}
	return reasons[r]
}

// An Error is why an exchange failed.
type Error struct {
	Peer   bool // the peer refused and said so; else we did
	Reason Reason
	Detail string // what we saw, if it was us
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Reason.String()
	}
	return e.Reason.String() + ": " + e.Detail
}

// refuse is our own reason.
func refuse(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}
