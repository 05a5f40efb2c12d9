package rdmatools

import (
	"bytes"
	"testing"
)

// FuzzAdvertisement checks that a peer cannot advertise more memory than a ping may have.
func FuzzAdvertisement(f *testing.F) {
	f.Add(advertisement{1 << 40, 7, 64}.encode())
	f.Add(advertisement{1 << 40, 7, maxPing + 1}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAdvertisement(b)
		if err != nil {
			return
		}
		if a.size == 0 || a.size > maxPing || !bytes.Equal(a.encode(), b) {
			t.Fatalf("%x is %+v", b, a)
		}
		if data := pingData(int(a.addr%100), int(a.size)); len(data) != int(a.size) || data[len(data)-1] != 0 {
			t.Fatalf("%d bytes of data, want %d", len(data), a.size)
		}
	})
}
