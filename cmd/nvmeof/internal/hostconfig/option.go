package hostconfig

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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

// class says where in nvme-fabrics.conf an option is allowed.
type class uint8

const (
	classAddress  class = iota // on a controller line
	classTunable               // on a controller line and in every section
	classSecurity              // in every section, but not on a controller line
	classIdentity              // in section Host
	classNQN                   // in the section of a subsystem or a discovery controller
	classCommand               // not in a file: only on a command line
)

// An Option is an option of nvme connect or nvme discover.
type Option struct {
	Name     string // long name on the command line
	Also     string // alternative name on the command line; "": none
	Short    byte   // 0: none
	JSON     string // name in config.json; "": not allowed there
	kind     kind
	class    class
	Min, Max int    // of a number
	Unset    string // a number out of range that selects the default; "": none
	Default  int    // of a number
	Usage    string // help text
	Where    bool   // it selects the controller
	Lost     bool   // it applies only to connections that stay, mostly to the time after they are lost
	Secret   bool   // not to be printed
	Hidden   bool   // in help texts
	refuse   string
	ignore   string
}

// Refused returns why the option is not supported; "" if it is.
func (o *Option) Refused() string { return cmp.Or(o.refuse, o.ignore) }

// IsUnset reports whether a value selects the default.
func (o *Option) IsUnset(value string) bool { return o.Unset != "" && value == o.Unset }

// IsFlag reports whether the value of the option is optional.
func (o *Option) IsFlag() bool { return o.kind == kindFlag }

// MaxSeconds is the maximum timeout: Linux stores it in milliseconds in 31 bits.
const MaxSeconds = math.MaxInt32 / 1000

const (
	noTLS    = "there is no TLS over RDMA"
	noDigest = "RDMA has no digests: its packets have their own checksum"
	noQueues = "this host has one kind of I/O queue, for reads, writes and polling: use nr-io-queues"
)

// options lists all options that files may contain, in the order in which they are written, with the bounds that apply
// in files and on command lines.
var options = []Option{
	{Name: "transport", Short: 't', JSON: "transport", class: classAddress, Where: true, Usage: "transport type: rdma"},
	{Name: "traddr", Short: 'a', JSON: "traddr", class: classAddress, Where: true, Usage: "transport address: the controller's IP address or host name"},
	{Name: "host-traddr", Short: 'w', JSON: "host_traddr", class: classAddress, Usage: "this host's address (default: the route's, or a free address of the loopback)"},
	{Name: "host-iface", Short: 'f', JSON: "host_iface", class: classAddress, Hidden: true, Usage: "not supported: use --host-traddr"},
	{Name: "trsvcid", Short: 's', JSON: "trsvcid", class: classAddress, Where: true, Usage: "transport service id: the controller's port (default 4420)"},
	{Name: "dhchap-secret", Short: 'S', JSON: "dhchap_key", class: classSecurity, Secret: true, Usage: "this host's key for in-band authentication (DHHC-1:...), or file:PATH"},
	{Name: "dhchap-ctrl-secret", Short: 'C', JSON: "dhchap_ctrl_key", class: classSecurity, Secret: true, Usage: "key by which the target must authenticate, or file:PATH"},
	{Name: "nr-io-queues", Short: 'i', JSON: "nr_io_queues", kind: kindNumber, class: classTunable, Min: 1, Max: nvmeof.MaxIOQueues, Unset: "0", Default: 1, Usage: "number of io queues to use, each with its own thread"},
	{Name: "nr-write-queues", Short: 'W', JSON: "nr_write_queues", kind: kindNumber, class: classTunable, Max: math.MaxInt32, ignore: noQueues},
	{Name: "nr-poll-queues", Short: 'P', JSON: "nr_poll_queues", kind: kindNumber, class: classTunable, Max: math.MaxInt32, ignore: noQueues},
	{Name: "queue-size", Short: 'Q', JSON: "queue_size", kind: kindNumber, class: classTunable, Min: 2, Max: nvmeof.MaxQueueDepth, Unset: "0", Default: nvmeof.DefaultQueueDepth, Usage: "number of io queue elements to use"},
	{Name: "keep-alive-tmo", Short: 'k', JSON: "keep_alive_tmo", kind: kindNumber, class: classTunable, Max: MaxSeconds, Usage: "keep alive timeout period in seconds (default 5)"},
	{Name: "reconnect-delay", Short: 'c', JSON: "reconnect_delay", kind: kindNumber, class: classTunable, Min: 1, Max: MaxSeconds, Unset: "0", Default: 10, Lost: true, Usage: "maximum time between attempts to reconnect in seconds; the first ones come sooner"},
	{Name: "ctrl-loss-tmo", Short: 'l', JSON: "ctrl_loss_tmo", kind: kindNumber, class: classTunable, Min: -1, Max: MaxSeconds, Default: 600, Lost: true, Usage: "time in seconds after which a lost controller is given up; -1: never"},
	{Name: "fast_io_fail_tmo", Short: 'F', JSON: "fast_io_fail_tmo", kind: kindNumber, class: classTunable, Min: -1, Max: MaxSeconds, Lost: true, Usage: "time in seconds after which requests stop waiting for a lost controller; 0: when it is given up"},
	{Name: "tos", Short: 'T', JSON: "tos", kind: kindNumber, class: classTunable, Max: 255, Unset: "-1", Usage: "type of service"},
	{Name: "duplicate-connect", Short: 'D', JSON: "duplicate_connect", kind: kindFlag, class: classTunable, Lost: true, Usage: "connect even if there is such a connection already"},
	{Name: "disable-sqflow", JSON: "disable_sqflow", kind: kindFlag, class: classTunable, Usage: "disable controller sq flow control"},
	{Name: "hdr-digest", Short: 'g', JSON: "hdr_digest", kind: kindFlag, class: classTunable, refuse: noDigest},
	{Name: "data-digest", Short: 'G', JSON: "data_digest", kind: kindFlag, class: classTunable, refuse: noDigest},
	{Name: "tls", JSON: "tls", kind: kindFlag, class: classSecurity, refuse: noTLS},
	{Name: "concat", JSON: "concat", kind: kindFlag, class: classSecurity, refuse: noTLS},
	{Name: "tls-key", Also: "tls_key", JSON: "tls_key", class: classSecurity, Secret: true, refuse: noTLS},
	{Name: "tls-key-identity", JSON: "tls_key_identity", class: classSecurity, refuse: noTLS},
	{Name: "keyring", JSON: "keyring", class: classSecurity, ignore: noTLS},
	{Name: "persistent", Short: 'p', JSON: "persistent", kind: kindFlag, class: classCommand},
	{Name: "nqn", Short: 'n', kind: kindNQN, class: classNQN, Where: true, Usage: "subsystem nqn"},
	{Name: "hostnqn", Short: 'q', kind: kindNQN, class: classIdentity, Usage: "user-defined hostnqn (default: /etc/nvme/hostnqn, or one kept for this user)"},
	{Name: "hostid", Short: 'I', kind: kindUUID, class: classIdentity, Usage: "user-defined hostid (default: /etc/nvme/hostid, or the one in the hostnqn)"},
	{Name: "hostsymname", class: classIdentity, ignore: "this host does not register with discovery controllers"},
}

// Known returns the options that files may contain, in the order in which they are written.
func Known() []Option { return slices.Clone(options) }

// InRange reports whether n is within the bounds of the option.
func (o *Option) InRange(n int) bool { return n >= o.Min && n <= o.Max }

// find returns the option with a long name, as spelled on the command line or in nvme-fabrics.conf. The spellings of
// one option differ.
func find(name string) *Option {
	if name == "fast-io-fail-tmo" {
		name = "fast_io_fail_tmo"
	}
	for i := range options {
		if options[i].Name == name {
			return &options[i]
		}
	}
	return nil
}

func findShort(c byte) *Option {
	for i := range options {
		if options[i].Short == c && c != 0 {
			return &options[i]
		}
	}
	return nil
}

func findJSON(name string) *Option {
	for i := range options {
		if options[i].JSON == name && name != "" {
			return &options[i]
		}
	}
	return nil
}

// names returns the names of all options that have one according to of.
func names(of func(*Option) string) (all []string) {
	for i := range options {
		if n := of(&options[i]); n != "" {
			all = append(all, n)
		}
	}
	return all
}

// didYouMean returns a suggestion for a name that does not exist, or "".
func didYouMean(name string, all []string) string {
	if near := nvmeof.Nearest(name, all); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// asks reports whether a value requests anything other than the default.
func (o *Option) asks(value string) bool {
	switch o.kind {
	case kindFlag:
		return value == "true"
	case kindNumber:
		n, err := strconv.Atoi(value)
		return err == nil && n > 0
	}
	return value != ""
}

// check returns a value in the form used in Options, or an error if the value is invalid.
func (o *Option) check(value string) (string, error) {
	switch o.kind {
	case kindNumber:
		n, err := strconv.ParseInt(value, 0, 32)
		if err == nil && o.Unset == strconv.FormatInt(n, 10) {
			return o.Unset, nil
		}
		if err != nil || !o.InRange(int(n)) {
			return "", fmt.Errorf("%s is %s: want a number from %d to %d", o.Name, nvmeof.Printable(value), o.Min, o.Max)
		}
		return strconv.FormatInt(n, 10), nil
	case kindFlag:
		on, ok := parseBool(value)
		if !ok {
			return "", fmt.Errorf("%s is %s: want true or false", o.Name, nvmeof.Printable(value))
		}
		return strconv.FormatBool(on), nil
	case kindNQN:
		n, err := nvmeof.AnyNQN(value)
		if err != nil {
			return "", fmt.Errorf("%s: %w", o.Name, err)
		}
		return string(n), nil
	case kindUUID:
		u, err := uuid.Parse(value)
		if err != nil || u == uuid.Nil {
			return "", fmt.Errorf("%s is %s: want a UUID that is not zero", o.Name, nvmeof.Printable(value))
		}
		return u.String(), nil
	}
	if i := strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return "", fmt.Errorf("%s has a character that is not text", o.Name)
	}
	return value, nil
}

// parseBool parses a boolean as systemd does.
func parseBool(s string) (on, ok bool) {
	switch strings.ToLower(s) {
	case "1", "yes", "y", "true", "t", "on":
		return true, true
	case "0", "no", "n", "false", "f", "off":
		return false, true
	}
	return false, false
}
