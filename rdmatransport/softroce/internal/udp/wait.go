package udp

import "time"

func (p *port) Watch(fd int) error { return p.wait.Watch(fd) }

func (p *port) Wake() { p.wait.Wake() }

func (p *port) Wait(d time.Duration) { p.wait.Wait(d) }
