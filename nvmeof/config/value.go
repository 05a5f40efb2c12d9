package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A value is a scalar with a text form of its own. Its zero value means "not given".
type value interface {
	UnmarshalText([]byte) error
	MarshalText() ([]byte, error)
	// pattern returns a regular expression for the schema, or the list of possible values.
	pattern() (expression string, names []string)
}

// A Size is a number of bytes, written 4096, 4k, 4KiB, 10GiB or 10GB.
type Size int64

// String returns the shortest form of the size; binary units are preferred.
func (s Size) String() string { return nvmeof.FormatSize(int64(s)) }

func (s *Size) UnmarshalText(b []byte) error {
	n, err := nvmeof.ParseSize(string(b))
	*s = Size(n)
	return err
}
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
func (*Size) pattern() (string, []string)   { return `^[1-9][0-9]*(([KMGT]i?)?B|[KMGTkmgt])?$`, nil }

// A Duration is a positive duration, written 5s or 250ms.
type Duration time.Duration

func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v <= 0 {
		return fmt.Errorf("duration %s: write it as 5s or 250ms", nvmeof.Printable(string(b)))
	}
	*d = Duration(v)
	return nil
}

// MarshalText returns the text of time.Duration without zero units at its end.
func (d Duration) MarshalText() ([]byte, error) {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return []byte(s), nil
}
func (*Duration) pattern() (string, []string) {
	return `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`, nil
}

// asValue returns the value that p points to, if it has a text form of its own.
func asValue(p any) (v value, ok bool) {
	if n, isNQN := p.(*nvmeof.NQN); isNQN {
		return (*name)(n), true
	}
	v, ok = p.(value)
	return v, ok
}

// A name is an NQN of a document: one that can be sent and compared, whatever its form.
type name nvmeof.NQN

func (n *name) UnmarshalText(b []byte) error {
	v, err := nvmeof.AnyNQN(string(b))
	if err != nil {
		return fmt.Errorf("%w: an NQN is like nqn.2026-11.org.example:disk", err)
	}
	*n = name(v)
	return nil
}
func (n name) MarshalText() ([]byte, error) { return []byte(n), nil }
func (*name) pattern() (string, []string)   { return `^.{1,223}$`, nil }

// An Address is an IP address and a port.
type Address struct{ netip.AddrPort }

func (a *Address) UnmarshalText(b []byte) error {
	v, err := nvmeof.ParseListen(string(b))
	switch {
	case err != nil:
		return fmt.Errorf("%w: write it as 192.0.2.1, 192.0.2.1:4420 or [2001:db8::1]:4420", err)
	case v.Addr().IsMulticast():
		return fmt.Errorf("address %v: hosts cannot connect to it; give an address of this machine", v.Addr())
	}
	a.AddrPort = v
	return nil
}
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
func (*Address) pattern() (string, []string)   { return `^[0-9A-Fa-f.:%\[\]a-z]+$`, nil }

// An HTTPAddress is an IP address of this machine and a port. 0.0.0.0 and [::] mean all addresses.
type HTTPAddress struct{ netip.AddrPort }

func (a *HTTPAddress) UnmarshalText(b []byte) error {
	v, err := netip.ParseAddrPort(string(b))
	if err != nil || v.Port() == 0 || v.Addr().IsMulticast() {
		return fmt.Errorf("address %s: write it as 127.0.0.1:9420 or [::1]:9420, with an address of this machine and a port", nvmeof.Printable(string(b)))
	}
	a.AddrPort = v
	return nil
}
func (a HTTPAddress) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
func (*HTTPAddress) pattern() (string, []string)   { return `^[0-9A-Fa-f.:%\[\]a-z]+:[0-9]+$`, nil }

// A UUID identifies a namespace.
type UUID uuid.UUID

func (u *UUID) UnmarshalText(b []byte) error {
	v, err := uuid.ParseBytes(b)
	if err != nil || len(b) != 36 || v == uuid.Nil {
		return fmt.Errorf("UUID %s: want one like 8f7c3c1e-6f0b-4f5e-9a53-0f3c1d2e4b5a, not all zeroes", nvmeof.Printable(string(b)))
	}
	*u = UUID(v)
	return nil
}
func (u UUID) String() string               { return uuid.UUID(u).String() }
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }
func (*UUID) pattern() (string, []string) {
	return `^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`, nil
}

// An NGUID is a Namespace Globally Unique Identifier. Its text may have dashes and colons between the digits.
type NGUID [16]byte

func (n *NGUID) UnmarshalText(b []byte) error { return parseHex(n[:], "NGUID", b) }
func (n NGUID) MarshalText() ([]byte, error)  { return []byte(hex.EncodeToString(n[:])), nil }
func (*NGUID) pattern() (string, []string)    { return `^([0-9a-fA-F]{2}[-:]?){16}$`, nil }

// An EUI64 is an IEEE Extended Unique Identifier.
type EUI64 [8]byte

func (e *EUI64) UnmarshalText(b []byte) error { return parseHex(e[:], "EUI-64", b) }
func (e EUI64) MarshalText() ([]byte, error)  { return []byte(hex.EncodeToString(e[:])), nil }
func (*EUI64) pattern() (string, []string)    { return `^([0-9a-fA-F]{2}[-:]?){8}$`, nil }

func parseHex(to []byte, what string, b []byte) error {
	digits := strings.NewReplacer("-", "", ":", "").Replace(string(b))
	v, err := hex.DecodeString(digits)
	if err != nil || len(v) != len(to) || !slices.ContainsFunc(v, func(c byte) bool { return c != 0 }) {
		return fmt.Errorf("%s %s: want %d hexadecimal digits, not all zero", what, nvmeof.Printable(string(b)), 2*len(to))
	}
	copy(to, v)
	return nil
}

// A Path is an absolute path in its shortest form.
type Path string

var errVariable = errors.New("variables are only replaced in the paths of key files; write the path in full")

func (p *Path) UnmarshalText(b []byte) error {
	s := string(b)
	if strings.Contains(s, "${") {
		return errVariable
	}
	if err := checkPath(s); err != nil {
		return err
	}
	*p = Path(s)
	return nil
}
func (p Path) MarshalText() ([]byte, error) { return []byte(p), nil }
func (*Path) pattern() (string, []string)   { return `^/`, nil }

// checkPath returns an error for a path that depends on the working directory, or that hides which file it names.
func checkPath(s string) error {
	switch {
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("path %s contains a zero byte", nvmeof.Printable(s))
	case !utf8.ValidString(s): // documents and the API are UTF-8
		return fmt.Errorf("path %s is not UTF-8, so a document would name another file; rename it, or give a symbolic link", nvmeof.Printable(s))
	case !path.IsAbs(s):
		return fmt.Errorf("path %s is relative; give an absolute path", nvmeof.Printable(s))
	case path.Clean(s) != s:
		return fmt.Errorf("path %s is not in its shortest form; write %s", nvmeof.Printable(s), nvmeof.Printable(path.Clean(s)))
	}
	return nil
}

// A KeyFile is the path of a file with a secret. ${NAME} stands for an environment variable, as in
// ${CREDENTIALS_DIRECTORY}/host.key.
type KeyFile string

func (k *KeyFile) UnmarshalText(b []byte) error {
	*k = KeyFile(b)
	if strings.HasPrefix(string(b), "DHHC-1:") {
		return errors.New("this is a key: write it to a file of mode 0600, and give the file's path")
	}
	_, err := k.Expand(func(string) string { return "/x" })
	return err
}
func (k KeyFile) MarshalText() ([]byte, error) { return []byte(k), nil }
func (*KeyFile) pattern() (string, []string)   { return `^(/|\$\{)`, nil }

// Expand returns the path with its variables replaced. An empty variable is an error.
func (k KeyFile) Expand(getenv func(string) string) (string, error) {
	rest, out := string(k), ""
	for {
		before, after, found := strings.Cut(rest, "${")
		out += before
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed || name == "" {
			return "", fmt.Errorf("path %s: ${ needs a name and }", nvmeof.Printable(string(k)))
		}
		value := getenv(name)
		if value == "" {
			return "", fmt.Errorf("path %s: the environment variable %s is not set", nvmeof.Printable(string(k)), nvmeof.Printable(name))
		}
		out, rest = out+value, tail
	}
	return out, checkPath(out)
}
