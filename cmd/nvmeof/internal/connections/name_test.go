package connections

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// TestNamesOfReplaced checks that a namespace that takes over the NSID of another does not get its name, also after a
// restart, and that a disk that returns has its former name. A note with NSIDs only is taken to be about the present
// disks.
func TestNamesOfReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if err := os.WriteFile(claimPath(r.holder.config.Dir, 0), []byte(`{"subsystem":"a","namespaces":{"7":2}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		r.connect("a", "192.0.2.1", "nvme0")
		r.spaces("a", 3)
		store := r.fake.subs["a"].spaces[0].Store
		for _, c := range []struct {
			disk byte
			want string
		}{{1, "nvme0n1 nvme0n2"}, {2, "nvme0n1 nvme0n3"}, {1, "nvme0n1 nvme0n2"}, {3, "nvme0n1 nvme0n4"}} {
			s := r.fake.subs["a"]
			r.fake.mu.Lock()
			s.spaces = append(s.spaces[:1:1], Namespace{ID: 7, Store: store, Identifiers: host.Identifiers{UUID: uuid.UUID{15: c.disk}}})
			r.fake.mu.Unlock()
			s.changed()
			r.published(c.want)
		}
		r.controller("nvme0").set(Dead, nil)
		r.published("")
		if slices.Sort(r.front.gone); !slices.Equal(r.front.gone, []string{"nvme0n1", "nvme0n2", "nvme0n3", "nvme0n4"}) {
			t.Errorf("waited for who uses %q", r.front.gone)
		}
		r.connect("a", "192.0.2.1", "nvme0")
		s := r.fake.subs["a"]
		s.spaces = []Namespace{{ID: 7, Store: store, Identifiers: host.Identifiers{UUID: uuid.UUID{15: 2}}}}
		s.changed()
		r.published("nvme0n3")
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestManyReplaced checks that a namespace that is replaced again and again does not fill the file.
func TestManyReplaced(t *testing.T) {
	s := &subsystem{numbers: map[capsule.NSID]int{}, disks: map[int]string{}}
	kept := &Namespace{ID: 1}
	s.number(kept)
	for i := range uint32(maxDisks * 3 / 2) {
		n := &Namespace{ID: 2}
		binary.BigEndian.PutUint32(n.Identifiers.UUID[:], i+1)
		before := s.numbers[2]
		if !s.number(n) || s.number(n) || s.numbers[2] == before {
			t.Fatalf("disk %d has the number %d, the one before had %d", i, s.numbers[2], before)
		}
	}
	if len(s.disks) > maxDisks || s.number(kept) || s.numbers[1] != 1 {
		t.Errorf("%d disks are noted, the one that stays has the number %d", len(s.disks), s.numbers[1])
	}
}

// TestManyListed checks that a target that lists different namespaces again and again does not fill the file.
func TestManyListed(t *testing.T) {
	s := &subsystem{numbers: map[capsule.NSID]int{}, disks: map[int]string{}}
	const each = 500
	for i := range 12 {
		all := []Namespace{{ID: 1}}
		for n := range each {
			all = append(all, Namespace{ID: capsule.NSID(2 + i*each + n)})
		}
		if !s.numberAll(all) || s.numberAll(all) {
			t.Fatalf("list %d is news twice, or not once", i)
		}
		for i := range all {
			if s.numbers[all[i].ID] == 0 {
				t.Fatalf("namespace %d has no number", all[i].ID)
			}
		}
	}
	if len(s.numbers) > maxDisks+each || len(s.disks) > maxDisks+each || s.numbers[1] != 1 {
		t.Errorf("%d numbers of %d disks are noted, the one that stays has %d", len(s.numbers), len(s.disks), s.numbers[1])
	}
}

// TestNumberMany checks that the time for numbering grows linearly with the number of namespaces, for new and for
// replaced ones, beyond the number of those that are remembered.
func TestNumberMany(t *testing.T) {
	t.Parallel()
	many, limit := 2*maxDisks, 10*time.Second
	if *long {
		many, limit = 4*many, 3*limit
	}
	s := &subsystem{numbers: map[capsule.NSID]int{}, disks: map[int]string{}}
	began := time.Now()
	for round := range byte(3) {
		all := make([]Namespace, many)
		for i := range all {
			all[i] = Namespace{ID: capsule.NSID(i + 1), Identifiers: host.Identifiers{UUID: uuid.UUID{15: round}}}
		}
		if !s.numberAll(all) || s.numberAll(all) {
			t.Fatalf("round %d is news twice, or not once", round)
		}
		had := map[int]bool{}
		for i := range all {
			had[s.numbers[all[i].ID]] = true
		}
		if len(had) != many || had[0] || len(s.disks) > many+many/4 {
			t.Fatalf("round %d: %d numbers, and %d disks noted, of %d", round, len(had), len(s.disks), many)
		}
	}
	if took := time.Since(began); took > limit { // it takes a fraction of a second, and a minute if quadratic
		t.Errorf("it took %v", took)
	}
}

// TestNoteAgain checks that a name that could not be recorded, for example on a full file system, is recorded later
// without any other event. Nothing is published by it before, and what was published stays.
func TestNoteAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect("a", "192.0.2.1", "nvme0")
		r.spaces("a", 3)
		r.published("nvme0n1")
		c := r.holder.subsystems[0].claim
		writable := c.file
		full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
		if err != nil {
			t.Skip(err)
		}
		use := func(f *os.File) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.file = f
		}
		use(full)
		r.spaces("a", 3, 7)
		time.Sleep(3 * noteAgain)
		r.published("nvme0n1")
		if len(r.log) != 1 || !strings.Contains(r.log[0], "no space left on device; new namespaces of a are published when") {
			t.Errorf("logged %q", r.log)
		}
		use(writable)
		time.Sleep(noteAgain)
		synctest.Wait()
		if p := readPast(claimPath(r.holder.config.Dir, 0)); p.Namespaces[7] != 2 {
			t.Errorf("noted is %+v", p)
		}
		r.published("nvme0n1 nvme0n2")
		if err := errors.Join(full.Close(), r.holder.Close()); err != nil {
			t.Error(err)
		}
	})
}
