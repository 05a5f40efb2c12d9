package auth

import "fmt"

// reasonCode is the only Reason Code: authentication failed. The Reason Code Explanation says why.
const reasonCode = 1

// A Reason is the Reason Code Explanation of AUTH_Failure1 and AUTH_Failure2.
type Reason uint8

const (
	ReasonFailed   Reason = 1 // the response is wrong
	ReasonProtocol Reason = 2 // no common protocol
	ReasonChannel  Reason = 3 // secure channel concatenation mismatch
	ReasonHash     Reason = 4 // no common hash
	ReasonGroup    Reason = 5 // no common group
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

// An Error is the reason why an exchange failed.
type Error struct {
	Peer   bool // the peer refused; otherwise this side did
	Reason Reason
	Detail string // what was wrong, if this side refused
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Reason.String()
	}
	return e.Reason.String() + ": " + e.Detail
}

// refuse returns an Error of this side.
func refuse(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}
