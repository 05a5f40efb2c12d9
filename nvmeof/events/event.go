package events

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Kind is the kind of an event.
type Kind string

// Kinds of events.
const (
	Connect     Kind = "connect"     // a host has connected
	Disconnect  Kind = "disconnect"  // an association has ended
	Lost        Kind = "lost"        // a host was silent, or the transport failed
	Refused     Kind = "refused"     // a connection, an authentication or a command was refused
	Reservation Kind = "reservation" // a host or an administrator changed a reservation
	Namespace   Kind = "namespace"   // a namespace was added, removed or changed
	ANA         Kind = "ana"         // the state of an ANA group changed at a listener
	Listener    Kind = "listener"    // a listener was opened, has ended or is waiting
	Change      Kind = "config"      // the configuration changed
	Store       Kind = "store"       // a store failed, hangs, waits or has recovered
	Start       Kind = "start"       // the target started
	Stop        Kind = "stop"        // the target stopped in order
	Unclean     Kind = "unclean"     // the previous process ended without a stop
)

// A Severity says who should look at an event.
type Severity string

// Severities of events.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// An Event describes something that happened. Fields that do not apply are empty.
type Event struct {
	Seq       uint64    `json:"seq"` // sequence number, from 1
	Time      time.Time `json:"time"`
	Kind      Kind      `json:"kind"`
	Severity  Severity  `json:"severity"`
	Subsystem string    `json:"subsystem,omitempty"`
	NSID      int       `json:"nsid,omitempty"`
	Host      string    `json:"host,omitempty"`    // NQN
	Address   string    `json:"address,omitempty"` // of the host, or of a listener
	Text      string    `json:"text"`
	Count     int       `json:"count,omitempty"` // number of events that this one stands for; 0: one
}

// Limits of an event's fields, in bytes.
const (
	maxName = 223 // NVMe base 2.0, 4.5: NVMe Qualified Names
	maxText = 384
)

// trim shortens the event's text to the limits, and makes it printable.
func (e *Event) trim() {
	cut(&e.Subsystem, maxName)
	cut(&e.Host, maxName)
	cut(&e.Address, 64)
	cut((*string)(&e.Kind), 16)
	cut((*string)(&e.Severity), 16)
	cut(&e.Text, maxText)
}

func cut(s *string, n int) {
	if len(*s) > n {
		*s = (*s)[:n]
	}
	*s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, *s)
}

// A part is one of the parts of the log, which have separate space.
type part int

const (
	refusals part = iota
	hosts
	requests
	objects
	administration
	parts
)

// part returns the part that keeps events of the kind.
func (k Kind) part() part {
	switch k {
	case Refused:
		return refusals
	case Connect, Disconnect, Lost:
		return hosts
	case Reservation:
		return requests
	case Namespace, ANA, Listener:
		return objects
	}
	return administration
}
