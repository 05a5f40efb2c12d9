package connections

import (
	"fmt"
	"maps"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// maxDisks is the number of disks of a subsystem above which the numbers of removed disks are reused. A store in
// memory is a new disk at each start of its target.
const maxDisks = 4096

// numberAll gives each namespace its number, and reports whether one of them is new. With more than maxDisks numbers,
// it forgets those of other namespaces, since a target may list different ones each time.
func (s *subsystem) numberAll(all []Namespace) (news bool) {
	if len(s.numbers) > maxDisks {
		there := map[capsule.NSID]bool{}
		for i := range all {
			there[all[i].ID] = true
		}
		maps.DeleteFunc(s.numbers, func(id capsule.NSID, _ int) bool { return !there[id] })
	}
	for i := range all {
		news = s.number(&all[i]) || news
	}
	return news
}

// number gives a namespace the number that it had, or else the lowest that no disk had, and reports whether that is
// new. A namespace that takes over the NSID of another one does not get its name: clients that were disconnected and
// reconnect by themselves would continue on another disk.
func (s *subsystem) number(n *Namespace) bool {
	if s.given == nil {
		s.findGiven()
	}
	disk := fmt.Sprintf("%d %v", n.ID, n.Identifiers)
	now := s.numbers[n.ID]
	switch was := s.disks[now]; {
	case was == disk:
		return false
	case now != 0 && was == "":
		s.give(now, disk)
		return true
	}
	if number := s.given[disk]; number != 0 {
		s.numbers[n.ID] = number
		return true
	}
	s.forgetDisks()
	for _, taken := s.disks[s.lowest]; taken; _, taken = s.disks[s.lowest] {
		s.lowest++
	}
	s.numbers[n.ID] = s.lowest
	s.give(s.lowest, disk)
	return true
}

// give records the disk of a number.
func (s *subsystem) give(number int, disk string) { s.disks[number], s.given[disk] = disk, number }

// forgetDisks frees the numbers of removed disks if there are more than maxDisks disks and at least an eighth of them
// was removed.
func (s *subsystem) forgetDisks() {
	if len(s.disks) < maxDisks || 8*(len(s.disks)-len(s.numbers)) < len(s.disks) {
		return
	}
	current := map[int]bool{}
	for _, number := range s.numbers {
		current[number] = true
	}
	maps.DeleteFunc(s.disks, func(number int, _ string) bool { return !current[number] })
	s.findGiven()
}

// findGiven rebuilds given from disks, and restarts the search for the lowest free number at 1.
func (s *subsystem) findGiven() {
	s.given, s.lowest = make(map[string]int, len(s.disks)), 1
	for number, disk := range s.disks {
		s.given[disk] = number
	}
}

func (s *subsystem) namespaceName(id capsule.NSID) string { return s.diskName(s.numbers[id]) }

func (s *subsystem) diskName(number int) string {
	return fmt.Sprintf("nvme%dn%d", s.claim.number, number)
}
