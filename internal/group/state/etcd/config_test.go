package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

func TestConfigErrors(t *testing.T) {
	dir := t.TempDir()
	noPEM := filepath.Join(dir, "empty")
	if err := os.WriteFile(noPEM, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one := []string{"a:1"}
	for _, c := range []struct {
		cfg  Config
		says string
	}{
		{Config{Group: "g"}, "no endpoint"},
		{Config{Endpoints: one}, `group name ""`},
		{Config{Endpoints: one, Group: "a/b"}, "without a slash"},
		{Config{Endpoints: one, Group: strings.Repeat("g", maxGroup+1)}, "1 to 64 bytes"},
		{Config{Endpoints: one, Group: "g", User: "u"}, "needs a password"},
		{Config{Endpoints: one, Group: "g", TLS: TLS{Cert: "c"}}, "needs its private key"},
		{Config{Endpoints: []string{"ftp://a:1"}, Group: "g"}, "want host:port"},
		{Config{Endpoints: []string{"a:1", "https://a:1"}, Group: "g"}, "the same form"},
		{Config{Endpoints: []string{"https://a:1", "http://a:1"}, Group: "g"}, "has no TLS"},
		{Config{Endpoints: []string{"http://a:1"}, Group: "g", TLS: TLS{CA: noPEM}}, "has no TLS"},
		{Config{Endpoints: []string{"http://a:1/x"}, Group: "g"}, "no host:port"},
		{Config{Endpoints: one, Group: "g", TLS: TLS{CA: filepath.Join(dir, "none")}}, "CA: open"},
		{Config{Endpoints: one, Group: "g", TLS: TLS{CA: noPEM}}, "no certificate in PEM"},
		{Config{Endpoints: one, Group: "g", TLS: TLS{Cert: noPEM, Key: noPEM}}, "client certificate"},
	} {
		if _, err := Open(c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.says)
		}
	}
}

// TestTLS: the files are used as intended.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	other, _ := selfSigned(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	m := newServer().member(t, loopback, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})))
	for name, c := range map[string]struct {
		tls  TLS
		good bool
	}{
		"all files":      {TLS{CA: cert, Cert: cert, Key: key}, true},
		"no certificate": {TLS{CA: cert}, false},
		"another CA":     {TLS{CA: other, Cert: cert, Key: key}, false},
	} {
		store := open(t, Config{Endpoints: []string{m.address}, TLS: c.tls, Timeout: 300 * time.Millisecond})
		if c.good {
			store.cfg.Timeout = defaultTimeout
		}
		if _, err := store.Txn(t.Context(), puts); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if store := open(t, Config{Endpoints: []string{"https://" + m.address}}); store.tls == nil || store.tls.RootCAs != nil {
		t.Errorf("https:// alone: %v", store.tls)
	}
}

// selfSigned writes a certificate for the members' address that is its own CA.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.ParseIP(host)}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
