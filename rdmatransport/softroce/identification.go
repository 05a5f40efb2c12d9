package softroce

import "time"

const (
	// idTrust is how many packets in a row must have had neighbouring
	// identifications before a stray one counts as corruption.
	idTrust = 64
	// idSlack is how far an identification may move at once, idPerMillisecond
	// how much further it may have moved while nothing was heard: Linux counts
	// one sequence for all traffic to an address, and skips ahead with time.
	idSlack          = 8192
	idPerMillisecond = 512
)

// identification follows the IPv4 identifications that a peer's packets turn out
// to have. A corrupted packet passes the identification-agnostic ICRC check with
// one chance in 2^16, and then with a random identification: against peers that
// count, most of those are caught here. Peers that do not count are left alone,
// and so are all whose path has not corrupted anything: for each corrupted packet
// that passes, some 2^16 are seen not to, whereas Linux's counter does jump to a
// random place now and then (two processors that reserve at a timer tick can set
// its time stamp back), and a good packet dropped there costs a Linux host its
// controller.
type identification struct {
	last    uint16
	at      time.Duration
	trust   int
	corrupt bool // a packet of this queue pair has failed its check
}

// plausible reports whether a packet with that identification is believed.
func (f *identification) plausible(id uint16, now time.Duration) bool {
	slack := idSlack + int64((now-f.at)/time.Millisecond)*idPerMillisecond
	step := int64(int16(id - f.last))
	near := slack >= 1<<15 || step <= slack && -step <= idSlack
	if f.corrupt && !near && f.trust >= idTrust {
		f.trust = 0
		return false
	}
	if near {
		f.trust++
	} else {
		f.trust = 0
	}
	f.last, f.at = id, now
	return true
}
