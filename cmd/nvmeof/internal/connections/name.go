package connections

import (
	"fmt"
	"maps"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// maxDisks is from how many disks of a subsystem on the numbers of those that are there no more
// go to others: memory is another disk at each start of its target.
const maxDisks = 4096

// numberAll gives all namespaces that there are their numbers, and reports whether one is news. Where there were very many
// others the numbers of those are free: a target may list others each time.
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

// number gives a namespace the number that it had, or the lowest that none had, and reports
// whether that is news. What has taken the identifier of another namespace does not take its
// name: clients that were sent away, and come back by themselves, would go on with another disk.
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

// give notes which disk has a number.
func (s *subsystem) give(number int, disk string) { s.disks[number], s.given[disk] = disk, number }

// forgetDisks frees the numbers of disks that are there no more, where there are very many, and enough of those
// that it is worth a look at all.
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

// findGiven takes from the disks that have numbers which number each has, and that any may be the lowest that is free.
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
