package config

import (
	"path"
	"reflect"
	"testing"
)

// FuzzExport: a namespace from a command line is valid in a document.
func FuzzExport(f *testing.F) {
	for _, s := range []string{"mem:1GiB", "disk.img", "/dev/sda,buffered", "a,size=1GiB,block-size=512,read-only", "mem:64k,uuid=8f7c3c1e-6f0b-4f5e-9a53-0f3c1d2e4b5a",
		"x,nguid=0123456789abcdef0123456789abcdef,ana-group=2", "mem:1MiB,hosts", "b,force,read-only=false", ",", "mem:,=", "d,size=1,size=2"} {
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, device bool) {
		here := Machine{IsDevice: func(string) bool { return device }, Abs: func(p string) (string, error) {
			if path.IsAbs(p) {
				return path.Clean(p), nil
			}
			return path.Join("/home", p), nil
		}}
		n, err := ParseExport(s, here)
		if err != nil {
			_ = err.Error()
			return
		}
		n.NSID = 1
		doc := &Document{Version: 1, Subsystems: []*Subsystem{{NQN: "nqn.2014-08.org.example:a", Namespaces: []*Namespace{n}}}}
		text := doc.JSON()
		if _, err := doc.Check(); err != nil {
			return // Check finds fields that contradict each other
		}
		again, _, err := Parse("again", text)
		if err != nil || string(again.JSON()) != string(text) {
			t.Fatalf("%q is\n%s\nwhich is %v", s, text, err)
		}
	})
}

// FuzzCongestion: accepted parameters survive a round trip.
func FuzzCongestion(f *testing.F) {
	f.Add("no-ecn,ignore,min-rate=8kbit,cnp-interval=2ns,gain=1/4,fast-rounds=6,hyper-rounds=7,additive-step=64kbit")
	f.Add("increase-bytes=1GB,increase-period=1h")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCongestion(s)
		if err != nil || c == (Congestion{}) {
			return
		}
		if again, err := ParseCongestion(c.String()); err != nil || again != c {
			t.Fatalf("%q is %+v, %q is %+v (%v)", s, c, c.String(), again, err)
		}
	})
}

// FuzzValues: accepted values survive a round trip.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"4KiB", "250ms", "1h0m0s", "0.1ns", "192.0.2.1:1", "fe80::1%eth0", "8f7c3c1e-6f0b-4f5e-9a53-0f3c1d2e4b5a", "01:23-4567-89abcdef",
		"0123456789abcdef0123456789abcdef", "/a/b", "${A}/b", "40Mbit", "1/256", "optimized", "rdma", "sha-256", "2.0", "auto"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, v := range []value{new(Size), new(Duration), new(name), new(Address), new(UUID), new(NGUID), new(EUI64), new(Path), new(KeyFile), new(BitRate), new(Part),
			new(Transport), new(ANAState), new(Access), new(Engine), new(TrType), new(Hash), new(NVMeVersion), new(Polling), new(Group)} {
			if v.UnmarshalText([]byte(s)) != nil {
				continue
			}
			text, err := v.MarshalText()
			if err != nil {
				t.Fatalf("%q is the %T %v: %v", s, v, v, err)
			}
			again := reflect.New(reflect.TypeOf(v).Elem()).Interface().(value)
			if err := again.UnmarshalText(text); err != nil || !reflect.DeepEqual(again, v) {
				t.Fatalf("%q is the %T %v, %q is %v (%v)", s, v, v, text, again, err)
			}
		}
	})
}
