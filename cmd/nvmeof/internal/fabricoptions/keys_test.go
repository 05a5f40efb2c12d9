package fabricoptions

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// TestKeysOfFiles checks that the file of a key is read for each connection attempt, and that the previous key is used
// if the file cannot be read.
func TestKeysOfFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	var last auth.Key
	write := func() string {
		t.Helper()
		k, err := auth.GenerateKey(auth.HashSHA256, rand.Reader)
		if err == nil {
			err = os.WriteFile(path, []byte(k.Text()+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		last = k
		return k.Text()
	}
	first := write()
	c, err := Parse(map[string]string{"traddr": "192.0.2.1", "dhchap-secret": "file:" + path, "dhchap-ctrl-secret": first})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := nvmeof.ParseAddress(c.Traddr, "")
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.HostOptions(addr, "")
	if err != nil {
		t.Fatal(err)
	}
	keys := c.Keys(&o)
	want := func(secret string) {
		t.Helper()
		var attempt host.Options
		if keys(&attempt); attempt.DHCHAPSecret.Text() != secret || attempt.DHCHAPCtrlSecret.Text() != first {
			t.Error("the keys are others")
		}
	}
	want(first)
	second := write()
	want(second)
	if err := os.WriteFile(path, []byte("DHHC-1:01:"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(second)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want(second)
	write()
	want(last.Text())
	c.secret = first
	if c.Keys(&o) != nil {
		t.Error("no file is named, and one is read")
	}
}
