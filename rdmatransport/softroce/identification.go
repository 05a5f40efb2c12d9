package softroce

import "time"

const (
	// idTrust is the number of consecutive packets with neighbouring identifications after which an outlier counts as
	// corrupted.
	idTrust = 64
	// idSlack is the largest step between the identifications of two packets; idPerMillisecond is added for each
	// millisecond between them. Linux uses one sequence for all traffic to an address, and skips ahead with time.
	idSlack          = 8192
	idPerMillisecond = 512
)

// identification tracks the IPv4 identifications of a peer's packets, as derived from their ICRC. A corrupted packet
// passes the ICRC check for unknown identifications with a probability of 2^-16, and then has a random
// identification. If the peer's identifications are sequential, most of those packets are detected here.
//
// Other peers are not checked, nor are those whose path has not corrupted anything yet. For each corrupted packet
// that passes, some 2^16 fail the check, while Linux's counter does jump to a random value now and then (two
// processors that reserve at a timer tick can set its time stamp back). Dropping a good packet then makes a Linux
// host lose its controller.
type identification struct {
	last    uint16
	at      time.Duration
	trust   int
	corrupt bool // a packet of this queue pair has failed the ICRC check
}

// plausible reports whether a packet with that identification is accepted.
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
