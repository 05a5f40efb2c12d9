// Package events keeps what happened to a target: hosts that connect and leave, refusals,
// changes, failures of stores. A [Log] is bounded, and with [Open] it survives restarts.
//
// The log is divided into five parts of one size: refusals; hosts that connect, disconnect
// and are lost; reservations; namespaces, ANA states and listeners; and the rest, which is
// configuration, stores, starts and stops. Events replace the oldest one of their own part,
// so that a peer that connects or is
// refused all the time replaces nothing of the other parts. Of events that peers cause
// equal ones within ten seconds are counted in one, an address has at most four different
// refusals in that time beside one that counts the others, and a part but the last takes at
// most twenty in a second, beside one that counts the others.
//
// # The file
//
// It has records of 1024 bytes, text that ends in a line feed: a header, and one for each
// event that the log can keep; the last one says at which numbers the last 16 processes began, so that
// who resumes after a crash misses nothing. A record has a checksum, and one that is torn or damaged is
// skipped. The file is written by a goroutine of the log, after an event was recorded; where
// that fails, or hangs, the records are counted as lost, and everything else goes on.
package events
