package target

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/life"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// TestLargestRecords: the largest records that hosts and administrators can cause can be read at the next start.
func TestLargestRecords(t *testing.T) {
	dir := t.TempDir()
	name := nvmeof.NQN("nqn.2014-08.org.example:" + strings.Repeat("<", capsule.MaxNQN)) // six bytes each in JSON
	registered := reservation.State{Persist: true}
	for i := range reservation.MaxRegistrants {
		registered.Registrants = append(registered.Registrants, reservation.Registrant{
			Host: capsule.HostID{1, byte(i), byte(i >> 8)}, Key: math.MaxUint64, NQN: name[:capsule.MaxNQN]})
	}
	reserved, err := registered.Encode(reservation.Owner{Subsystem: name[:capsule.MaxNQN]})
	if err != nil {
		t.Fatal(err)
	}
	var counted life.Record
	counted = counted.Begin(time.Unix(1, 0), "firmware", "boot", 1)
	one := life.Namespace{Protection: capsule.WriteProtected, Counts: health.Counts{Reads: math.MaxUint64, Writes: math.MaxUint64,
		ReadBytes: math.MaxUint64, WriteBytes: math.MaxUint64, MediaErrors: math.MaxUint64, Busy: math.MaxInt64}}
	for i := range 2 * capsule.NSID(nvmeof.MaxNamespaces) { // each replaces another one, which may return
		one.UUID = uuid.UUID{2, byte(i), byte(i >> 8)}
		counted.Note(i%nvmeof.MaxNamespaces+1, one)
	}
	kept, err := counted.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text []byte
		file interface {
			ReservationStore
			Check() error
		}
	}{{reserved, ReservationFile(filepath.Join(dir, "reservations"))}, {kept, StateFile(filepath.Join(dir, "state"))}} {
		if err := test.file.Save(test.text); err != nil {
			t.Errorf("%v with %d bytes: %v", test.file, len(test.text), err)
		}
		if err := test.file.Check(); err != nil {
			t.Errorf("%v with %d bytes: %v", test.file, len(test.text), err)
		}
	}
}
