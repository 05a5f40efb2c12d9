package hostconfig

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

type kind uint8

const (
	kindText kind = iota
	kindNumber
	kindFlag
	kindNQN
	kindUUID
)

// class is where in nvme-fabrics.conf an option may stand.
type class uint8

const (
	classAddress  class = iota // on a controller line
	classTunable               // there, and in every section
	classSecurity              // in every section, not on a controller line
	classIdentity              // in [Host]
	classNQN                   // in the section of a controller
	classCommand               // nowhere: only on a command line
)

// An option is one of nvme connect or nvme discover.
type option struct {
	name     string
	short    byte   // 0: none
	json     string // in config.json; "": nowhere
	kind     kind
	class    class
	min, max int  // of a number
	secret   bool // not to be shown
	refuse   string
	ignore   string
}

const maxInt32 = 1<<31 - 1

const (
	noTLS    = "there is no TLS over RDMA"
	noDigest = "there are no digests over RDMA, whose packets have a checksum of their own"
	noQueues = "queues here carry all kinds of commands, and are polled as the host's loops are"
)

// options are all that a file may have. Their order is that in which they are
// written.
var options = []option{
	{name: "transport", short: 't', json: "transport", class: classAddress},
	{name: "traddr", short: 'a', json: "traddr", class: classAddress},
	{name: "host-traddr", short: 'w', json: "host_traddr", class: classAddress},
	{name: "host-iface", short: 'f', json: "host_iface", class: classAddress},
	{name: "trsvcid", short: 's', json: "trsvcid", class: classAddress},
	{name: "dhchap-secret", short: 'S', json: "dhchap_key", class: classSecurity, secret: true},
	{name: "dhchap-ctrl-secret", short: 'C', json: "dhchap_ctrl_key", class: classSecurity, secret: true},
	{name: "nr-io-queues", short: 'i', json: "nr_io_queues", kind: kindNumber, class: classTunable, min: 0, max: nvmeof.MaxIOQueues},
	{name: "nr-write-queues", short: 'W', json: "nr_write_queues", kind: kindNumber, class: classTunable, max: maxInt32, ignore: noQueues},
	{name: "nr-poll-queues", short: 'P', json: "nr_poll_queues", kind: kindNumber, class: classTunable, max: maxInt32, ignore: noQueues},
	{name: "queue-size", short: 'Q', json: "queue_size", kind: kindNumber, class: classTunable, min: 0, max: nvmeof.MaxQueueDepth},
	{name: "keep-alive-tmo", short: 'k', json: "keep_alive_tmo", kind: kindNumber, class: classTunable, min: 0, max: maxInt32 / 1000},
	{name: "reconnect-delay", short: 'c', json: "reconnect_delay", kind: kindNumber, class: classTunable, min: 0, max: maxInt32 / 1000},
	{name: "ctrl-loss-tmo", short: 'l', json: "ctrl_loss_tmo", kind: kindNumber, class: classTunable, min: -1, max: maxInt32 / 1000},
	{name: "fast_io_fail_tmo", short: 'F', json: "fast_io_fail_tmo", kind: kindNumber, class: classTunable, min: -1, max: maxInt32},
	{name: "tos", short: 'T', json: "tos", kind: kindNumber, class: classTunable, min: -1, max: 255},
	{name: "duplicate-connect", short: 'D', json: "duplicate_connect", kind: kindFlag, class: classTunable},
	{name: "disable-sqflow", json: "disable_sqflow", kind: kindFlag, class: classTunable},
	{name: "hdr-digest", short: 'g', json: "hdr_digest", kind: kindFlag, class: classTunable, refuse: noDigest},
	{name: "data-digest", short: 'G', json: "data_digest", kind: kindFlag, class: classTunable, refuse: noDigest},
	{name: "tls", json: "tls", kind: kindFlag, class: classSecurity, refuse: noTLS},
	{name: "concat", json: "concat", kind: kindFlag, class: classSecurity, refuse: noTLS},
	{name: "tls-key", json: "tls_key", class: classSecurity, secret: true, refuse: noTLS},
	{name: "tls-key-identity", json: "tls_key_identity", class: classSecurity, refuse: noTLS},
	{name: "keyring", json: "keyring", class: classSecurity, ignore: noTLS},
	{name: "persistent", short: 'p', json: "persistent", kind: kindFlag, class: classCommand},
	{name: "nqn", short: 'n', kind: kindNQN, class: classNQN},
	{name: "hostnqn", short: 'q', kind: kindNQN, class: classIdentity},
	{name: "hostid", short: 'I', kind: kindUUID, class: classIdentity},
	{name: "hostsymname", class: classIdentity, ignore: "this host does not register itself with discovery controllers"},
}

// find is the option of a long name, spelled as on the command line or in
// nvme-fabrics.conf, which differ in one.
func find(name string) *option {
	if name == "fast-io-fail-tmo" {
		name = "fast_io_fail_tmo"
	}
	for i := range options {
		if options[i].name == name {
			return &options[i]
		}
	}
	return nil
}

func findShort(c byte) *option {
	for i := range options {
		if options[i].short == c && c != 0 {
			return &options[i]
		}
	}
	return nil
}

func findJSON(name string) *option {
	for i := range options {
		if options[i].json == name && name != "" {
			return &options[i]
		}
	}
	return nil
}

// names are those of the options that may stand in a place.
func names(of func(*option) string) (all []string) {
	for i := range options {
		if n := of(&options[i]); n != "" {
			all = append(all, n)
		}
	}
	return all
}

// didYouMean is what to do about a name that does not exist.
func didYouMean(name string, all []string) string {
	if near := nvmeof.Nearest(name, all); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// asks reports whether a value wants something, other than what is the case anyway.
func (o *option) asks(value string) bool {
	switch o.kind {
	case kindFlag:
		return value == "true"
	case kindNumber:
		n, err := strconv.Atoi(value)
		return err == nil && n > 0
	}
	return value != ""
}

// check returns a value in the form that Options have, or what is wrong with it.
func (o *option) check(value string) (string, error) {
	switch o.kind {
	case kindNumber:
		n, err := strconv.ParseInt(value, 0, 32)
		if err != nil || int(n) < o.min || int(n) > o.max {
			return "", fmt.Errorf("%s is %s: want a number from %d to %d", o.name, nvmeof.Printable(value), o.min, o.max)
		}
		return strconv.FormatInt(n, 10), nil
	case kindFlag:
		on, ok := parseBool(value)
		if !ok {
			return "", fmt.Errorf("%s is %s: want true or false", o.name, nvmeof.Printable(value))
		}
		return strconv.FormatBool(on), nil
	case kindNQN:
		n, err := nvmeof.AnyNQN(value)
		if err != nil {
			return "", fmt.Errorf("%s: %w", o.name, err)
		}
		return string(n), nil
	case kindUUID:
		u, err := uuid.Parse(value)
		if err != nil || u == uuid.Nil {
			return "", fmt.Errorf("%s is %s: want a UUID that is not zero", o.name, nvmeof.Printable(value))
		}
		return u.String(), nil
	}
	if i := strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return "", fmt.Errorf("%s has a character that is no text", o.name)
	}
	return value, nil
}

// parseBool reads what systemd takes for a truth value.
func parseBool(s string) (on, ok bool) {
	switch strings.ToLower(s) {
	case "1", "yes", "y", "true", "t", "on":
		return true, true
	case "0", "no", "n", "false", "f", "off":
		return false, true
	}
	return false, false
}
