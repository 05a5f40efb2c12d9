package hostconfig

import (
	"strconv"
	"testing"
)

// wantSound checks that every entry can be connected, whatever the file.
func wantSound(t *testing.T, r Result) {
	t.Helper()
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.Options["transport"] != "rdma" || e.Options["traddr"] == "" || e.NQN() == "" {
			t.Errorf("entry %v is not complete", e)
		}
		for name, v := range e.Options {
			o := find(name)
			if o == nil {
				t.Fatalf("option %s does not exist", name)
			}
			checked, err := o.check(v)
			if err != nil || checked != v {
				t.Errorf("%s=%q was not checked: %q, %v", name, v, checked, err)
			}
			if n, err := strconv.Atoi(v); o.kind == kindNumber && v != o.Unset && (err != nil || !o.InRange(n)) {
				t.Errorf("%s=%s is out of range", name, v)
			}
		}
	}
	text, err := WriteJSON(r.Entries)
	if err != nil {
		t.Fatal(err)
	}
	again := ParseJSON("again", text)
	if len(again.Entries) != len(r.Entries) || again.Err() != nil {
		t.Errorf("%d entries became %d: %v\n%s", len(r.Entries), len(again.Entries), again.Err(), text)
	}
}

func FuzzDiscoveryConf(f *testing.F) {
	f.Add([]byte("--transport=rdma --traddr=192.0.2.1 -k 30 -p # x\n-t tcp\n"))
	f.Fuzz(func(t *testing.T, text []byte) { wantSound(t, ParseDiscoveryConf(testFile, text)) })
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(hosts))
	f.Add([]byte(`{"hosts":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) { wantSound(t, ParseJSON(testFile, text)) })
}

func FuzzFabricsConf(f *testing.F) {
	f.Add([]byte(mainConf), []byte(dropIn))
	f.Fuzz(func(t *testing.T, main, drop []byte) {
		wantSound(t, ParseFabricsConf(File{testFile, main}, []File{{"d", drop}}))
	})
}
