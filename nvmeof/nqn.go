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

// Errors that [ParseNQN] wraps.
var (
	ErrNQNForm = errors.New("NQN is not of the form nqn.YYYY-MM.DOMAIN:NAME, the domain in reverse, as in nqn.2014-08.org.example:disk")
	ErrNQNUUID = errors.New("NQN is not of the form nqn.2014-08.org.nvmexpress:uuid:UUID")
)

// ParseNQN returns s as an NQN if it has one of the two forms of the specification. The first consists of the month
// in which the naming authority owned its domain, the domain in reverse order, and optionally a colon and a name.
// The second contains a UUID.
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

// AnyNQN returns s as an NQN if it can be sent and compared, whatever its form: other implementations also use
// names like "testnqn".
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

// UUIDNQN returns the NQN that contains the UUID. Hosts have such names.
func UUIDNQN(id uuid.UUID) NQN { return NQN(uuidPrefix + id.String()) }

// UUID returns the UUID that n contains, and whether n has the form of [UUIDNQN].
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

// isMonth reports whether s is a year and a month, "2014-08".
func isMonth(s string) bool {
	year, err1 := strconv.ParseUint(s[:4], 10, 16)
	month, err2 := strconv.ParseUint(s[5:], 10, 8)
	return err1 == nil && err2 == nil && s[4] == '-' && year > 0 && month >= 1 && month <= 12
}

// isDomain reports whether s is a domain name. An NQN has it in reverse order, which has the same syntax.
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

// String returns the name. If it is not printable, it is escaped and shortened.
func (n NQN) String() string { return Printable(string(n)) }

// printableLimit is how many bytes of a peer's text [Printable] returns.
const printableLimit = 256

// Printable returns the text of a peer in a form that can be logged: unchanged if that is harmless, else quoted and
// escaped. Long text is cut. Keys are concealed; see [Concealed].
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

// Visible returns the text of a peer in a form that can be displayed in a field of its own, where spaces are
// harmless. Bytes that are not UTF-8, and characters that a terminal interprets, hides or reorders, are escaped as
// in a Go string: \x1b or \u202e.
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

// hidden reports whether a terminal may not display r as itself and in its place.
func hidden(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// odd reports whether r could break a log line or one of its fields.
func odd(r rune) bool {
	return hidden(r) || unicode.IsSpace(r) || r == '"' || r == '\\'
}
