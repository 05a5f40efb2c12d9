package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Enumerations. The empty value means "not given".
type (
	Transport   string // softroce, verbs or auto
	ANAState    string // optimized, non-optimized, inaccessible, persistent-loss or change
	Access      string // write, read or none
	Engine      string // auto, uring or threads
	TrType      string // rdma or tcp
	Hash        string // sha256, sha384 or sha512
	NVMeVersion string // 1.2.1, 1.3, 1.4 or 2.0
	Polling     string // adaptive, always, never or auto
	Fence       string // storage or lease
	Group       string // null, ffdhe2048 to ffdhe8192
)

var (
	transports = []string{"softroce", "verbs", "auto"}
	anaStates  = []string{"optimized", "non-optimized", "inaccessible", "persistent-loss", "change"}
	accesses   = []string{"write", "read", "none"}
	engines    = []string{"auto", "uring", "threads"}
	trTypes    = []string{"rdma", "tcp"}
	hashes     = []string{"sha256", "sha384", "sha512"}
	versions   = []string{"1.2.1", "1.3", "1.4", "2.0"}
	pollings   = []string{"auto", "adaptive", "always", "never"}
	fences     = []string{"storage", "lease"}
	groups     = []string{"null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"}
)

// Words returns the values of an enumeration other than the empty one, as in Words[ANAState]().
func Words[T ~string, P interface {
	*T
	value
}]() []string {
	_, names := P(nil).pattern()
	return slices.Clone(names)
}

// word sets *to to b if that is one of the names.
func word[T ~string](to *T, b []byte, names []string) error {
	s := string(b)
	if slices.Contains(names, s) {
		*to = T(s)
		return nil
	}
	if near := nvmeof.Nearest(strings.ToLower(s), names); near != "" {
		return fmt.Errorf("%s is not known; did you mean %s?", nvmeof.Printable(s), near)
	}
	return fmt.Errorf("%s is not known; use one of %s", nvmeof.Printable(s), strings.Join(names, ", "))
}

func (v *Transport) UnmarshalText(b []byte) error   { return word(v, b, transports) }
func (v *ANAState) UnmarshalText(b []byte) error    { return word(v, b, anaStates) }
func (v *Access) UnmarshalText(b []byte) error      { return word(v, b, accesses) }
func (v *Engine) UnmarshalText(b []byte) error      { return word(v, b, engines) }
func (v *TrType) UnmarshalText(b []byte) error      { return word(v, b, trTypes) }
func (v *Hash) UnmarshalText(b []byte) error        { return word(v, b, hashes) }
func (v *NVMeVersion) UnmarshalText(b []byte) error { return word(v, b, versions) }
func (v *Polling) UnmarshalText(b []byte) error     { return word(v, b, pollings) }
func (v *Fence) UnmarshalText(b []byte) error       { return word(v, b, fences) }
func (v *Group) UnmarshalText(b []byte) error       { return word(v, b, groups) }

func (v Transport) MarshalText() ([]byte, error)   { return []byte(v), nil }
func (v ANAState) MarshalText() ([]byte, error)    { return []byte(v), nil }
func (v Access) MarshalText() ([]byte, error)      { return []byte(v), nil }
func (v Engine) MarshalText() ([]byte, error)      { return []byte(v), nil }
func (v TrType) MarshalText() ([]byte, error)      { return []byte(v), nil }
func (v Hash) MarshalText() ([]byte, error)        { return []byte(v), nil }
func (v NVMeVersion) MarshalText() ([]byte, error) { return []byte(v), nil }
func (v Polling) MarshalText() ([]byte, error)     { return []byte(v), nil }
func (v Fence) MarshalText() ([]byte, error)       { return []byte(v), nil }
func (v Group) MarshalText() ([]byte, error)       { return []byte(v), nil }

func (*Transport) pattern() (string, []string)   { return "", transports }
func (*ANAState) pattern() (string, []string)    { return "", anaStates }
func (*Access) pattern() (string, []string)      { return "", accesses }
func (*Engine) pattern() (string, []string)      { return "", engines }
func (*TrType) pattern() (string, []string)      { return "", trTypes }
func (*Hash) pattern() (string, []string)        { return "", hashes }
func (*NVMeVersion) pattern() (string, []string) { return "", versions }
func (*Polling) pattern() (string, []string)     { return "", pollings }
func (*Fence) pattern() (string, []string)       { return "", fences }
func (*Group) pattern() (string, []string)       { return "", groups }
