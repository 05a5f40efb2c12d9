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
	disk := fmt.Sprintf("%d %v", n.ID, n.Identifiers)
	now := s.numbers[n.ID]
	switch was := s.disks[now]; {
	case was == disk:
		return false
	case now != 0 && was == "":
		s.disks[now] = disk
		return true
	}
	for number, d := range s.disks {
		if d == disk {
			s.numbers[n.ID] = number
			return true
		}
	}
	s.forgetDisks()
	next := 1
	for _, taken := s.disks[next]; taken; _, taken = s.disks[next] {
		next++
	}
	s.numbers[n.ID], s.disks[next] = next, disk
	return true
}

// forgetDisks frees the numbers of disks that are there no more, where there are very many.
func (s *subsystem) forgetDisks() {
	if len(s.disks) < maxDisks {
		return
	}
	current := map[int]bool{}
	for _, number := range s.numbers {
		current[number] = true
	}
	maps.DeleteFunc(s.disks, func(number int, _ string) bool { return !current[number] })
}

func (s *subsystem) namespaceName(id capsule.NSID) string { return s.diskName(s.numbers[id]) }

func (s *subsystem) diskName(number int) string {
	return fmt.Sprintf("nvme%dn%d", s.claim.number, number)
}
