package nvmeof

import "testing"

func TestParseAddress(t *testing.T) {
	cases := []struct{ traddr, trsvcid, want string }{
		{"192.0.2.1", "", "192.0.2.1:4420"},
		{" 192.0.2.1 ", " 4421 ", "192.0.2.1:4421"},
		{"2001:db8::1", "", "[2001:db8::1]:4420"},
		{"[2001:db8::1]", "1", "[2001:db8::1]:1"},
		{"fe80::1%eth0", "", "[fe80::1%eth0]:4420"},
		{"fe80::1%2", "", "[fe80::1%2]:4420"},
		{"fe80::1%\x1b[2J", "", ""},
		{"fe80::1%a\nnvmeof: done", "", ""},
		{"fe80::1%\u202eeth0", "", ""},
		{"fe80::1%a b", "", ""},
		{"fe80::1%\xff", "", ""},
		{"fe80::1%../eth0", "", ""},
		{"fe80::1%sixteen-letters.", "", ""},
		{"::ffff:192.0.2.1", "", "192.0.2.1:4420"},
		{"host.example", "", ""},
		{"", "", ""},
		{"[2001:db8::1", "", ""},
		{"192.0.2.1", "0", ""},
		{"192.0.2.1", "65536", ""},
		{"192.0.2.1", "-1", ""},
		{"192.0.2.1", "nvme", ""},
	}
	for _, c := range cases {
		got, err := ParseAddress(c.traddr, c.trsvcid)
		if (err == nil) != (c.want != "") || err == nil && got.String() != c.want {
			t.Errorf("ParseAddress(%q, %q) = %v, %v, want %q", c.traddr, c.trsvcid, got, err, c.want)
		}
	}
}

func TestParseListen(t *testing.T) {
	cases := []struct{ in, want string }{
		{"192.0.2.1", "192.0.2.1:4420"},
		{"192.0.2.1:4421", "192.0.2.1:4421"},
		{"2001:db8::1", "[2001:db8::1]:4420"},
		{"[2001:db8::1]", "[2001:db8::1]:4420"},
		{"[2001:db8::1]:99", "[2001:db8::1]:99"},
		{"[2001:db8::1]:", ""},
		{"[2001:db8::1]99", ""},
		{"192.0.2.1:", ""},
		{":4420", ""},
		{"192.0.2.1:x", ""},
	}
	for _, c := range cases {
		got, err := ParseListen(c.in)
		if (err == nil) != (c.want != "") || err == nil && got.String() != c.want {
			t.Errorf("ParseListen(%q) = %v, %v, want %q", c.in, got, err, c.want)
		}
	}
}
