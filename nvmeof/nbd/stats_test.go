package nbd

import "testing"

func TestStatsText(t *testing.T) {
	for want, s := range map[string]Stats{
		"clients: 0; requests: 0":                        {},
		"clients: 2; requests: 7; refused: 1; failed: 3": {Clients: 2, Requests: 7, Refused: 1, Failed: 3},
		"clients: 1; requests: 0; clients refused because there were too many: 4; times that a client could not be accepted: 9; clients too slow in the handshake: 5; clients disconnected in the handshake: 6; " +
			"clients disconnected for invalid requests: 7; clients gone without disconnecting: 8": {
			Clients: 1, TooMany: 4, Unaccepted: 9, Slow: 5, BadHandshake: 6, BadRequests: 7, Lost: 8},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}
