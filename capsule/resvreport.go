package capsule

import "fmt"

// Lengths in bytes of the data structure of Reservation Report that is not extended.
const (
	ReservationStatusShort     = 24 // before the registrants
	ReservationRegistrantShort = 24
)

// A ReservationTable is the result of Reservation Report: the status, and as many registrants as the buffer had room
// for.
type ReservationTable struct {
	ReservationStatus
	Hosts []ReservationRegistrant
}

// ParseReservationTable decodes the extended data structure of Reservation Report (NVMe base 2.0, 7.5), or the one that
// is not extended, in which host identifiers have only 8 bytes.
func ParseReservationTable(b []byte, extended bool) (t ReservationTable, err error) {
	header, size, decode := ReservationStatusShort, ReservationRegistrantShort, decodeShortRegistrant
	if extended {
		header, size, decode = ReservationStatusSize, ReservationRegistrantSize, DecodeReservationRegistrant
	}
	if len(b) < header {
		return t, ErrShort
	}
	t.ReservationStatus.fields(layout{b: b[:ReservationStatusShort]})
	b = b[header:]
	for i := range int(t.Registrants) {
		if len(b) < size {
			break // the buffer ends here
		}
		r, err := decode(b)
		if err != nil {
			return t, fmt.Errorf("reservation report: registrant %d: %w", i, err)
		}
		t.Hosts, b = append(t.Hosts, r), b[size:]
	}
	return t, nil
}

func decodeShortRegistrant(b []byte) (r ReservationRegistrant, err error) {
	l, err := decoder(b, ReservationRegistrantShort)
	if err == nil {
		u16(l, 0, &r.CNTLID)
		u8(l, 2, &r.Holds)
		l.bytes(8, r.Host[:8])
		u64(l, 16, &r.Key)
	}
	return r, err
}
