package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Keys made by nvme-cli 2.13.
const (
	linuxKey1 = "DHHC-1:01:iLrcx+dz6YaVK73GpAuGRBW9jL0FdmLsZuPDxndHL8o6fQVl:"
	linuxKey3 = "DHHC-1:03:+0m7r8w7WBDo4crlSNT+B++4EzC/OSlaaqb+WMDEW0I6sT0sgfcBLvvobBC+rrvlGsFVMNRrcRL41rIC9rCKWRfd1dE=:"
)

func TestParseKey(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"nvme-cli's, SHA-256", linuxKey1, nil},
		{"nvme-cli's, SHA-512", linuxKey3, nil},
		{"space around", " " + linuxKey1 + "\n", nil},
		{"empty", "", ErrKeyForm},
		{"other prefix", "NVMeTLSkey-1:01:iLrcx+dz6YaVK73GpAuGRBW9jL0FdmLsZuPDxndHL8o6fQVl:", ErrKeyForm},
		{"no colon at the end", strings.TrimSuffix(linuxKey1, ":"), ErrKeyForm},
		{"text behind", linuxKey1 + "x", ErrKeyForm},
		{"hash of one digit", strings.Replace(linuxKey1, ":01:", ":1:", 1), ErrKeyForm},
		{"hash 4", strings.Replace(linuxKey1, ":01:", ":04:", 1), ErrKeyHash},
		{"hash ff", strings.Replace(linuxKey1, ":01:", ":ff:", 1), ErrKeyHash},
		{"not base64", strings.Replace(linuxKey1, "iLrc", "i!rc", 1), ErrKeyBase64},
		{"wrapped", strings.Replace(linuxKey1, "iLrc", "iL\nrc", 1), ErrKeyBase64},
		{"cut", strings.Replace(linuxKey1, "iLrcx", "", 1), ErrKeyBase64},
		{"nothing between", "DHHC-1:01::", ErrKeyLength},
		{"shorter", strings.Replace(linuxKey1, "iLrc", "", 1), ErrKeyLength},
		{"one letter", strings.Replace(linuxKey1, "iLrc", "jLrc", 1), ErrKeyCRC},
		{"checksum", strings.Replace(linuxKey1, "fQVl", "fQVm", 1), ErrKeyCRC},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, err := ParseKey(c.text)
			if !errors.Is(err, c.want) {
				t.Fatalf("error is %v, want %v", err, c.want)
			}
			if want := strings.TrimSpace(c.text); err == nil && k.Text() != want {
				t.Errorf("text is %q, want %q", k.Text(), want)
			}
			if err != nil && !k.IsZero() {
				t.Error("there is a key in spite of the error")
			}
		})
	}
}

func TestGenerateKey(t *testing.T) {
	for hash, size := range map[Hash]int{HashNone: 32, HashSHA256: 32, HashSHA384: 48, HashSHA512: 64} {
		k, err := GenerateKey(hash, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseKey(k.Text())
		if err != nil || again.Text() != k.Text() || len(again.data().secret) != size || again.data().hash != hash {
			t.Errorf("%v: %d bytes, %v", hash, len(k.data().secret), err)
		}
	}
	if _, err := NewKey(4, make([]byte, 32)); !errors.Is(err, ErrKeyHash) {
		t.Error(err)
	}
	if _, err := NewKey(HashNone, make([]byte, 33)); !errors.Is(err, ErrKeyLength) {
		t.Error(err)
	}
}

// TestKeyIsHidden: however a structure with a key is printed, the secret is not in the output.
func TestKeyIsHidden(t *testing.T) {
	secret := bytes.Repeat([]byte("secret.."), 4)
	k, err := NewKey(HashNone, secret)
	if err != nil {
		t.Fatal(err)
	}
	type holder struct {
		Key    Key
		hidden Key
		list   []Key
	}
	h := holder{k, k, []Key{k}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		text := fmt.Sprintf(format, h) + fmt.Sprintf(format, &h)
		for _, bad := range []string{"secret", fmt.Sprintf("%x", secret), fmt.Sprint(secret[:4]), k.Text()} {
			if strings.Contains(text, strings.Trim(bad, "[]")) {
				t.Errorf("%s shows the secret: %s", format, text)
			}
		}
	}
	if got := k.String(); got != "DHHC-1:00:(32 bytes, hidden):" {
		t.Error(got)
	}
}

// TestDeriveKey: what nvme-cli 2.x makes of --secret, --hmac and --nqn.
func TestDeriveKey(t *testing.T) {
	secret := bytes.Repeat([]byte{0x5a}, 32)
	k, err := DeriveKey(HashSHA256, secret, testHostNQN)
	if err != nil {
		t.Fatal(err)
	}
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(testHostNQN + "NVMe-over-Fabrics"))
	if want := m.Sum(nil); !bytes.Equal(k.data().secret, want) {
		t.Errorf("secret is %x, want %x", k.data().secret, want)
	}
	if k, err = DeriveKey(HashNone, secret, testHostNQN); err != nil || !bytes.Equal(k.data().secret, secret) {
		t.Errorf("without a hash: %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, h := range AllHashes() {
		for _, name := range []string{h.String(), "hmac(" + h.String() + ")"} {
			if got, err := ParseHash(name); err != nil || got != h {
				t.Errorf("%s is %v (%v)", name, got, err)
			}
		}
	}
	for _, g := range AllGroups() {
		if got, err := ParseGroup(g.String()); err != nil || got != g {
			t.Errorf("%v is %v (%v)", g, got, err)
		}
	}
	for _, name := range []string{"", "md5", "none"} {
		if h, err := ParseHash(name); err == nil {
			t.Errorf("hash %q is %v", name, h)
		}
		if g, err := ParseGroup(name); err == nil {
			t.Errorf("group %q is %v", name, g)
		}
	}
}

// FuzzParseKey: an accepted key is formatted as it was.
func FuzzParseKey(f *testing.F) {
	f.Add(linuxKey1)
	f.Add(linuxKey3)
	f.Add("DHHC-1:00::")
	f.Fuzz(func(t *testing.T, s string) {
		if k, err := ParseKey(s); err == nil && k.Text() != strings.TrimSpace(s) {
			t.Errorf("%q became %q", s, k.Text())
		}
	})
}
