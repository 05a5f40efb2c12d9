package target

import "sync"

// hostList says which hosts may connect to a subsystem. The zero value refuses
// all.
type hostList struct {
	mu    sync.Mutex
	any   bool
	hosts map[string]bool
}

func (l *hostList) allow(nqn string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		l.hosts = make(map[string]bool)
	}
	l.hosts[nqn] = true
}

func (l *hostList) remove(nqn string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hosts, nqn)
}

func (l *hostList) allowAny(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.any = on
}

func (l *hostList) allows(nqn string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.any || l.hosts[nqn]
}
