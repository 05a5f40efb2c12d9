package attachcommand

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/scrape"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// measured is what there is to count: little at first, and more as it comes.
type measured struct {
	version   string
	front     *front
	hosts     atomic.Pointer[hosts.Pool]            // nil: not yet
	subsystem atomic.Pointer[connections.Subsystem] // likewise
}

func (m *measured) source() scrape.Source {
	return scrape.Source{
		Version: m.version, NBD: m.front.stats,
		Subsystems: func() []metrics.HostSubsystem {
			s := m.subsystem.Load()
			if s == nil {
				return nil
			}
			return []metrics.HostSubsystem{{Measures: (*s).Measure()}}
		},
		Devices: m.devices,
	}
}

func (m *measured) devices() []rdmatransport.Device {
	h := m.hosts.Load()
	if h == nil {
		return nil
	}
	return h.Devices()
}

// info is what there is to say about the process in a capture.
func (m *measured) info() connections.Process {
	p := connections.Process{PID: os.Getpid()}
	s := m.subsystem.Load()
	if s == nil {
		return p
	}
	all := (*s).Measure()
	one := connections.SubsystemInfo{NQN: string(all.NQN)}
	for i := range all.Paths {
		path := &all.Paths[i]
		one.HostNQN = string(path.HostNQN)
		one.Controllers = append(one.Controllers, connections.ControllerInfo{Name: fmt.Sprintf("path %d", path.Number),
			ID: uint16(path.Controller), Traddr: path.Addr.Addr().String(), Trsvcid: strconv.Itoa(int(path.Addr.Port()))})
	}
	p.Subsystems = append(p.Subsystems, one)
	return p
}

// captured serves captures of the process until it is told to end. Disks are served without them, too.
func (m *measured) captured(socket string, log func(line string)) (end func()) {
	s, err := connections.ServeCapture(socket, m.info, m.devices, log)
	if err != nil {
		log(fmt.Sprintf("packets of this process cannot be captured: %v", err))
		return func() {}
	}
	return func() {
		if err := s.Close(); err != nil {
			log(fmt.Sprintf("socket for captures: %v", err))
		}
	}
}
