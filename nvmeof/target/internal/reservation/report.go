package reservation

import "github.com/nvmeof-go/nvmeof/capsule"

// Report returns the extended data structure of Reservation Report. It has an entry for each controller of a
// registrant; controllers, which may be nil, returns them. A registrant that is not connected has an entry without
// a controller, as in the dynamic controller model.
func (s *State) Report(controllers func(capsule.HostID) []capsule.ControllerID) []byte {
	var all []capsule.ReservationRegistrant
	for _, r := range s.Registrants {
		e := capsule.ReservationRegistrant{CNTLID: capsule.ControllerIDDynamic, Key: r.Key, Host: r.Host}
		if s.Holds(r.Host) {
			e.Holds = 1
		}
		var ids []capsule.ControllerID
		if controllers != nil {
			ids = controllers(r.Host)
		}
		for _, e.CNTLID = range ids {
			all = append(all, e)
		}
		if len(ids) == 0 {
			all = append(all, e)
		}
	}
	b := make([]byte, capsule.ReservationStatusSize+len(all)*capsule.ReservationRegistrantSize)
	head := capsule.ReservationStatus{Generation: s.Generation, Type: s.Type, Registrants: uint16(len(all))}
	if s.Persist {
		head.Persist = 1
	}
	head.Encode(b)
	for i := range all {
		all[i].Encode(b[capsule.ReservationStatusSize+i*capsule.ReservationRegistrantSize:])
	}
	return b
}
