package rdmatest

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

var loopTests = []testCase{
	{"Wake", testWake},
	{"WakeBeforeWait", testWakeBeforeWait},
	{"OwnerWhileWaiting", testOwnerWhileWaiting},
	{"WaitTimeout", testWaitTimeout},
	{"WaitEndsWithWork", testWaitEndsWithWork},
	{"Watch", testWatch},
	{"Clock", testClock},
	{"QueueLimit", testQueueLimit},
}

// idleQueue opens a completion queue that no loop drives.
func (p *pair) idleQueue() rdmatransport.CompletionQueue {
	p.t.Helper()
	if p.Active.Attrs().Shards < 2 {
		p.t.Skip("device has a single completion queue, which must be polled")
	}
	cq, err := p.Active.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		p.t.Fatal(err)
	}
	return cq
}

// drain handles what a new queue may have to do.
func drain(cq rdmatransport.CompletionQueue) {
	var cs [4]rdmatransport.Completion
	cq.Poll(cs[:])
	cq.Flush()
	cq.Due() // an owner calls Due before it sleeps, and a provider may arm its device then
	cq.Wait(int64(time.Millisecond))
}

func testWake(p *pair) {
	cq := p.idleQueue()
	defer cq.Close()
	drain(cq)
	go func() {
		time.Sleep(10 * time.Millisecond)
		cq.Wake()
	}()
	if d := timed(func() { cq.Wait(int64(timeLimit)) }); d > timeLimit/2 {
		p.t.Errorf("Wait lasted %v after Wake", d)
	}
}

func timed(fn func()) time.Duration {
	start := time.Now()
	fn()
	return time.Since(start)
}

func testWakeBeforeWait(p *pair) {
	cq := p.idleQueue()
	defer cq.Close()
	drain(cq)
	cq.Wake()
	if d := timed(func() { cq.Wait(int64(timeLimit)) }); d > timeLimit/2 {
		p.t.Errorf("Wait lasted %v although Wake had been called", d)
	}
}

// testOwnerWhileWaiting: another goroutine may own the queue while one is in Wait.
func testOwnerWhileWaiting(p *pair) {
	cq := p.idleQueue()
	defer cq.Close()
	drain(cq)
	waited := make(chan time.Duration)
	go func() { // ends with Wake
		waited <- timed(func() { cq.Wait(int64(timeLimit)) })
	}()
	var cs [4]rdmatransport.Completion
	for range 1000 {
		runtime.Gosched()
		cq.Poll(cs[:])
		cq.Flush()
		if d := cq.Due(); d > int64(timeLimit) {
			p.t.Errorf("an idle queue is due in %v", time.Duration(d))
		}
	}
	cq.Wake()
	if d := <-waited; d > timeLimit/2 {
		p.t.Errorf("Wait lasted %v after Wake", d)
	}
}

func testWaitTimeout(p *pair) {
	cq := p.idleQueue()
	defer cq.Close()
	drain(cq)
	if d := timed(func() { cq.Wait(int64(5 * time.Millisecond)) }); d > timeLimit/2 {
		p.t.Errorf("Wait for 5 ms lasted %v", d)
	}
	if d := timed(func() { cq.Wait(0) }); d > time.Second {
		p.t.Errorf("Wait for nothing lasted %v", d)
	}
}

// testWaitEndsWithWork: Wait ends when there is work. Other tests depend on that too; this one tests it.
func testWaitEndsWithWork(p *pair) {
	a, b := p.connect(connConfig{recvs: 3, recvSize: 64})
	for i := range 3 {
		time.Sleep(2 * time.Millisecond) // both loops sleep by now
		a.post(rdmatransport.SendWR{ID: uint64(i), Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(0, 8)}})
		b.want(uint64(1000+i), rdmatransport.OpRecv, rdmatransport.StatusSuccess)
		a.want(uint64(i), rdmatransport.OpSend, rdmatransport.StatusSuccess)
	}
}

func testWatch(p *pair) {
	cq := p.idleQueue()
	defer cq.Close()
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := cq.Watch(int(r.Fd())); err != nil {
		p.t.Skipf("provider waits for no descriptors: %v", err)
	}
	drain(cq)
	for range 2 {
		go func() {
			time.Sleep(10 * time.Millisecond)
			w.Write([]byte{1})
		}()
		if d := timed(func() { cq.Wait(int64(timeLimit)) }); d > timeLimit/2 {
			p.t.Errorf("Wait lasted %v although a watched descriptor has become readable", d)
		}
		drain(cq)
	}
	const most = 10 // a Wait may return early, but not every one
	turns := 0
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); turns++ {
		drain(cq)
	}
	if turns > 20+most {
		p.t.Errorf("%d times Wait lasted less than the millisecond it was given, since nobody has read what ended one before", turns-20)
	}
}

func testClock(p *pair) {
	cq := p.idleQueue()
	defer cq.Close()
	var cs [4]rdmatransport.Completion
	cq.Poll(cs[:])
	first := cq.Now()
	if cq.Now() != first {
		p.t.Error("Now changed between two polls")
	}
	time.Sleep(3 * time.Millisecond)
	cq.Poll(cs[:])
	if d := time.Duration(cq.Now() - first); d < 3*time.Millisecond || d > timeLimit {
		p.t.Errorf("Now moved by %v in 3 ms", d)
	}
}

// testQueueLimit: a device allows no more open completion queues than its attributes say. A closed one makes room for
// another, as when a host ends before the next one starts.
func testQueueLimit(p *pair) {
	shards := p.Active.Attrs().Shards
	for i := 1; i < shards-1; i++ {
		p.a.addLoop()
	}
	for range 3 {
		var last rdmatransport.CompletionQueue
		if shards > 1 {
			var err error
			if last, err = p.Active.NewCompletionQueue(rdmatransport.CQConfig{}); err != nil {
				p.t.Fatalf("the last of %d completion queues: %v", shards, err)
			}
		}
		if cq, err := p.Active.NewCompletionQueue(rdmatransport.CQConfig{}); err == nil {
			cq.Close()
			p.t.Errorf("device opened more than its %d completion queues", shards)
		}
		if last == nil {
			return
		}
		if err := last.Close(); err != nil {
			p.t.Fatal(err)
		}
	}
}

// allocations counts the allocations of one round: a WRITE, a SEND with its receive, and a READ, on two completion
// queues driven by one goroutine.
func (s *suite) allocations(t *testing.T) {
	if s.Allocates != "" {
		t.Skip(s.Allocates)
	}
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := &pair{t: t, Pair: s.open(t)}
	p.a, p.b = newEnd(t, "active", p.Active), newEnd(t, "passive", p.Passive)
	defer p.close()
	a, b := p.connect(connConfig{})
	round := a.round(b)
	// Stop both loops while allocations are counted, and drive their queues here.
	hold := make(chan struct{})
	defer close(hold)
	for _, l := range []*loop{a.loop, b.loop} {
		stopped := make(chan struct{})
		l.mail <- func() { close(stopped); <-hold }
		l.cq.Wake()
		<-stopped
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(500, round); n >= 1 {
		t.Errorf("%.1f allocations per round of WRITE, SEND and READ, want none", n)
	}
}

func (a *side) round(b *side) func() {
	recv := []rdmatransport.RecvWR{{ID: 1, SGL: []rdmatransport.SGE{b.sge(0, 64)}}}
	to, key := b.addr(8192), b.region.RKey()
	sends := []rdmatransport.SendWR{
		{ID: 2, Op: writeOp, SGL: []rdmatransport.SGE{a.sge(0, 4096)}, RemoteAddr: to, RKey: key},
		{ID: 3, Op: rdmatransport.OpSend, SGL: []rdmatransport.SGE{a.sge(0, 64)}},
		{ID: 4, Op: readOp, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(8192, 4096)}, RemoteAddr: to, RKey: key},
	}
	var cs [16]rdmatransport.Completion
	return func() {
		if b.qp.PostRecv(recv) != nil || a.qp.PostSend(sends) != nil {
			panic("rdmatest: a post was refused")
		}
		for left := 2; left > 0; {
			for _, l := range [...]*loop{a.loop, b.loop} {
				n := l.cq.Poll(cs[:])
				for i := range cs[:n] {
					if cs[i].Status != rdmatransport.StatusSuccess {
						panic("rdmatest: " + cs[i].Status.String())
					}
				}
				left -= n
				l.cq.Flush()
			}
		}
	}
}
