package nvmeof

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// An NQN is an NVMe Qualified Name (NVMe base 2.0, 4.5): at most
// [capsule.MaxNQN] bytes of UTF-8, compared byte by byte.
type NQN string

// DiscoveryNQN is the well-known name of discovery subsystems.
const DiscoveryNQN NQN = capsule.DiscoveryNQN

const (
	nqnPrefix  = "nqn."
	uuidPrefix = "nqn.2014-08.org.nvmexpress:uuid:"
)

// Reasons why a string is not an NQN. Errors of ParseNQN wrap them.
var (
	ErrNQNForm = errors.New("NQN is not of the form nqn.YYYY-MM.DOMAIN:NAME, the domain in reverse, as in nqn.2014-08.org.example:disk")
	ErrNQNUUID = errors.New("NQN is not of the form nqn.2014-08.org.nvmexpress:uuid:UUID")
)

// ParseNQN returns s as an NQN if it has a form of the specification: the month in which the naming authority owned its
// domain, the domain in reverse, and optionally a colon and a name; or the form with a UUID.
func ParseNQN(s string) (NQN, error) {
	n, err := AnyNQN(s)
	if err != nil {
		return "", err
	}
	if err := n.checkForm(); err != nil {
		return "", fmt.Errorf("%s: %w", n, err)
	}
	return n, nil
}

// AnyNQN returns s as an NQN if it can be sent and compared, whatever its form: other hosts and targets also use names
// like "testnqn".
func AnyNQN(s string) (NQN, error) {
	err := error(nil)
	switch {
	case s == "":
		err = capsule.ErrNQNEmpty
	case len(s) > capsule.MaxNQN:
		err = capsule.ErrNQNLong
	default:
		f := capsule.MakeNQNField(s)
		if err = f.Check(); err == nil && strings.ContainsRune(s, 0) {
			err = capsule.ErrNQNText
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", Printable(s), err)
	}
	return NQN(s), nil
}

// UUIDNQN returns the NQN made from a UUID, which is the usual form for hosts.
func UUIDNQN(id uuid.UUID) NQN { return NQN(uuidPrefix + id.String()) }

// UUID returns the UUID of an NQN made by [UUIDNQN].
func (n NQN) UUID() (uuid.UUID, bool) {
	text, ok := strings.CutPrefix(string(n), uuidPrefix)
	if !ok || len(text) != 36 {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}

func (n NQN) checkForm() error {
	s := string(n)
	if strings.HasPrefix(s, uuidPrefix) {
		if _, ok := n.UUID(); !ok {
			return ErrNQNUUID
		}
		return nil
	}
	rest, ok := strings.CutPrefix(s, nqnPrefix)
	if !ok || len(rest) < len("2014-08.x") || !isMonth(rest[:7]) || rest[7] != '.' {
		return ErrNQNForm
	}
	domain, name, colon := strings.Cut(rest[8:], ":")
	if colon && name == "" || !isDomain(domain) {
		return ErrNQNForm
	}
	return nil
}

// isMonth reports whether s is a year and a month, as in "2014-08".
func isMonth(s string) bool {
	year, err1 := strconv.ParseUint(s[:4], 10, 16)
	month, err2 := strconv.ParseUint(s[5:], 10, 8)
	return err1 == nil && err2 == nil && s[4] == '-' && year > 0 && month >= 1 && month <= 12
}

// isDomain reports whether s is a domain name, here in reverse order.
func isDomain(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range label {
			if c != '-' && (c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c)) {
				return false
			}
		}
	}
	return true
}

// String returns the NQN, escaped and shortened if it is not printable.
func (n NQN) String() string { return Printable(string(n)) }

// printableLimit is the maximum number of bytes of a peer's text in a log line.
const printableLimit = 256

// Printable returns text of a peer for a log line: unchanged if that is harmless, otherwise quoted with escapes, and
// shortened to 256 bytes. Keys in it are concealed.
func Printable(s string) string {
	s = Concealed(s)
	cut := ""
	if len(s) > printableLimit {
		s, cut = s[:printableLimit], "..."
	}
	if s != "" && utf8.ValidString(s) && strings.IndexFunc(s, odd) < 0 {
		return s + cut
	}
	return strconv.QuoteToASCII(s) + cut
}

// Visible returns text of a peer for a field of its own, in which spaces are harmless. What a terminal would interpret,
// hide or reorder, and invalid UTF-8, is escaped as in a Go string, as \x1b or \u202e.
func Visible(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		switch r, n := utf8.DecodeRuneInString(s); {
		case n == 1 && r == utf8.RuneError:
			fmt.Fprintf(&b, "\\x%02x", s[0])
			s = s[1:]
		case hidden(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			s = s[n:]
		default:
			b.WriteString(s[:n])
			s = s[n:]
		}
	}
	return b.String()
}

// hidden reports whether a terminal would not show a rune as it is, in its place.
func hidden(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// odd reports whether a rune could break up a log line or its fields.
func odd(r rune) bool {
	return hidden(r) || unicode.IsSpace(r) || r == '"' || r == '\\'
}
