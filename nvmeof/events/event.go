package events

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Kind says what happened.
type Kind string

// Kinds of events.
const (
	Connect     Kind = "connect"     // a host has connected
	Disconnect  Kind = "disconnect"  // an association has ended
	Lost        Kind = "lost"        // a host was silent, or the transport failed
	Refused     Kind = "refused"     // a connection, an authentication or a command
	Reservation Kind = "reservation" // changed by a host or an administrator
	Namespace   Kind = "namespace"   // added, removed or changed
	ANA         Kind = "ana"         // the state of a group on a listener
	Listener    Kind = "listener"    // opened, ended or waiting
	Change      Kind = "config"      // of the configuration
	Store       Kind = "store"       // a store failed, hangs, waits or has recovered
	Start       Kind = "start"       // of the target
	Stop        Kind = "stop"        // an orderly end of the target
	Unclean     Kind = "unclean"     // the target before this one has ended without a stop
)

// A Severity says who should look.
type Severity string

// Severities of events.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// An Event is what happened. Names are empty where it is about none.
type Event struct {
	Seq       uint64    `json:"seq"` // counts events, from 1
	Time      time.Time `json:"time"`
	Kind      Kind      `json:"kind"`
	Severity  Severity  `json:"severity"`
	Subsystem string    `json:"subsystem,omitempty"`
	NSID      int       `json:"nsid,omitempty"`
	Host      string    `json:"host,omitempty"`    // NQN
	Address   string    `json:"address,omitempty"` // of the host, or of a listener
	Text      string    `json:"text"`
	Count     int       `json:"count,omitempty"` // how many such events this one stands for; 0: one
}

// Limits of what an event holds, in bytes.
const (
	maxName = 223 // NVMe base 2.0, 4.5: NVMe Qualified Names
	maxText = 384
)

// trim bounds the event, and makes it printable.
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

// A part is one of those that the log is divided into.
type part int

const (
	refusals part = iota
	hosts
	requests
	objects
	administration
	parts
)

// part is where events of the kind are kept.
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
