package reservation

import "github.com/nvmeof-go/nvmeof/capsule"

// Report is the extended data structure of Reservation Report. A host that is
// registered need not be connected, so no controller is named, as the dynamic
// controller model has it.
func (s *State) Report() []byte {
	b := make([]byte, capsule.ReservationStatusSize+len(s.Registrants)*capsule.ReservationRegistrantSize)
	head := capsule.ReservationStatus{Generation: s.Generation, Type: s.Type, Registrants: uint16(len(s.Registrants))}
	if s.Persist {
		head.Persist = 1
	}
	head.Encode(b)
	for i, r := range s.Registrants {
		e := capsule.ReservationRegistrant{CNTLID: capsule.ControllerIDDynamic, Key: r.Key, Host: r.Host}
		if s.Holds(r.Host) {
			e.Holds = 1
		}
		e.Encode(b[capsule.ReservationStatusSize+i*capsule.ReservationRegistrantSize:])
	}
	return b
}
