package capsule_test

import (
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestReservationTable(t *testing.T) {
	want := capsule.ReservationTable{
		ReservationStatus: capsule.ReservationStatus{Generation: 9, Type: 3, Registrants: 2, Persist: 1},
		Hosts: []capsule.ReservationRegistrant{
			{CNTLID: 0xffff, Holds: 1, Key: 0xa1, Host: capsule.HostID{1, 2, 3, 4, 5, 6, 7, 8}},
			{CNTLID: 3, Key: 1 << 63, Host: capsule.HostID{8: 0, 7: 1}},
		},
	}
	long := make([]byte, 64+2*64)
	want.ReservationStatus.Encode(long)
	short := make([]byte, 24+2*24)
	copy(short, long[:24])
	for i, r := range want.Hosts {
		r.Encode(long[64+64*i:])
		s := short[24+24*i:]
		binary.LittleEndian.PutUint16(s, uint16(r.CNTLID))
		s[2] = r.Holds
		copy(s[8:16], r.Host[:8])
		binary.LittleEndian.PutUint64(s[16:], uint64(r.Key))
	}
	for extended, b := range map[bool][]byte{true: long, false: short} {
		got, err := capsule.ParseReservationTable(b, extended)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("extended %v: %+v, %v, want %+v", extended, got, err, want)
		}
		header := map[bool]int{true: 64, false: 24}[extended]
		for n := range b {
			got, err := capsule.ParseReservationTable(b[:n], extended)
			if n < header && !errors.Is(err, capsule.ErrShort) || n >= header && (err != nil || len(got.Hosts) != (n-header)/header) {
				t.Fatalf("extended %v, %d bytes: %d registrants, %v", extended, n, len(got.Hosts), err)
			}
		}
	}
}

func FuzzReservationTable(f *testing.F) {
	f.Add(noise(200), true)
	f.Add(noise(100), false)
	f.Fuzz(func(t *testing.T, b []byte, extended bool) {
		if got, err := capsule.ParseReservationTable(b, extended); err == nil && len(got.Hosts) > int(got.Registrants) {
			t.Errorf("%d registrants of %d", len(got.Hosts), got.Registrants)
		}
	})
}
