package nbd

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/internal/yield"
)

// A loop serves all clients on one goroutine, which owns the loop and its conns.
type loop struct {
	server *Server
	epoll  int
	conns  []*conn
	owner  map[int32]*conn // by descriptor registered with epoll
	gates  map[string]*gate
	zeroes []byte // only zeroes, for stores without Write Zeroes

	spin      spinner
	yielder   yield.Loop
	idleTurns int // since the last useful turn
	stopping  bool
	deadline  time.Time // when stopping gives up

	unflushed []error // errors of the final flushes

	said        map[string]time.Time // lines of sayOfClient in the last reportPause, with their times
	lastFailure time.Time            // when the last failure was logged
	lastReason  string               // the last failure that was logged

	acceptAt     time.Time     // no client is accepted until then; zero: clients are accepted
	acceptPause  time.Duration // the pause before acceptAt; 0: the last accept succeeded
	lastShortage time.Time     // when the last shortage was logged

	polled  []unix.PollFd
	results [64]backend.Result
	events  [64]unix.EpollEvent
}

const (
	// few is the number of sockets up to which they are read without asking epoll first.
	few = 4
	// lookAround is after how many turns a polling loop asks epoll.
	lookAround = 64
)

func newLoop(s *Server) (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("nbd: epoll: %w", err)
	}
	l := &loop{server: s, epoll: fd, owner: map[int32]*conn{}, gates: map[string]*gate{}, said: map[string]time.Time{}}
	l.spin.init(&s.cfg)
	err = errors.Join(l.watch(s.listener.Descriptor(), unix.EPOLLIN), l.watch(s.wake.Descriptor(), unix.EPOLLIN))
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return l, nil
}

func (l *loop) watch(fd int, mask uint32) error {
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: mask, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("nbd: epoll: %w", err)
	}
	return nil
}

func (l *loop) run() {
	runtime.LockOSThread() // the thread ends with the goroutine
	defer close(l.server.ended)
	for !l.over() {
		useful := l.turn()
		l.yielder.Turn(useful)
		if useful {
			l.idleTurns = 0
			l.spin.worked()
			continue
		}
		l.idleTurns++
		if l.spin.over(l.inFlight()) {
			l.sleep()
			continue
		}
		// Others may have no other processor: the client that must read a reply, or the target that must send one.
		l.spin.giveWay()
		if l.idleTurns%lookAround == 0 {
			l.look(0)
		}
	}
	l.finish()
}

// turn advances all clients, and reports whether there was anything to do.
func (l *loop) turn() (useful bool) {
	if len(l.conns) > few {
		l.look(0)
	}
	for i := 0; i < len(l.conns); i++ {
		c := l.conns[i]
		if c.turn(l.results[:]) {
			useful = true
		}
		if c.over() {
			l.drop(i)
			i--
			useful = true // it may have been the last
		}
	}
	return useful
}

// inFlight returns the number of operations that the stores have.
func (l *loop) inFlight() (n int) {
	for _, c := range l.conns {
		n += c.submitted
	}
	return n
}

// sleep waits until there is something to do.
func (l *loop) sleep() {
	for _, c := range l.conns {
		if !c.arm() {
			return
		}
	}
	l.look(l.sleepLimit())
	l.yielder.Woke()
	l.spin.woke()
}

// sleepLimit returns how many milliseconds the loop may sleep; -1 means no limit.
func (l *loop) sleepLimit() int {
	var first time.Time
	if l.stopping {
		first = l.deadline
	} else {
		first = l.acceptAt
	}
	for _, c := range l.conns {
		if c.negotiation != nil && (first.IsZero() || c.deadline.Before(first)) {
			first = c.deadline
		}
	}
	if first.IsZero() {
		return -1
	}
	return int(max(0, time.Until(first)).Milliseconds()) + 1
}

// look handles ready descriptors. timeout is in milliseconds, as in epoll_wait.
func (l *loop) look(timeout int) {
	if !l.acceptAt.IsZero() && !time.Now().Before(l.acceptAt) {
		l.acceptAgain()
	}
	n, err := unix.EpollWait(l.epoll, l.events[:], timeout)
	if err != nil {
		n = 0 // EINTR
	}
	woken := false
	for _, e := range l.events[:n] {
		switch c := l.owner[e.Fd]; {
		case c != nil:
			c.ready(int(e.Fd), e.Events)
		case int(e.Fd) == l.server.listener.Descriptor():
			l.accept()
		case int(e.Fd) == l.server.wake.Descriptor():
			l.server.wake.Clear()
			woken = true
		}
	}
	if woken { // after the events, which may be of the previous socket
		l.renew()
	}
	if l.server.closing.Load() && !l.stopping {
		l.stop()
	}
	l.expire()
}

// renew replaces the listening socket by the one that keepSocket has created.
func (l *loop) renew() {
	r := l.server.renewed.Swap(nil)
	if r == nil {
		return
	}
	err := r.err
	if err == nil {
		if err = l.watch(r.socket.Descriptor(), unix.EPOLLIN); err != nil {
			_ = r.socket.Close() // a later attempt may succeed
		}
	}
	if err != nil {
		l.say("the socket's file was removed and cannot be created again: %v", err)
		return
	}
	_ = l.server.listener.Close() // its file was removed
	l.server.listener.Socket, l.acceptAt = r.socket, time.Time{}
	l.say("the socket's file was removed; created again: %s", l.server.cfg.Socket)
}

// accept accepts the clients that connect.
func (l *loop) accept() {
	for !l.stopping {
		fd, err := l.server.listener.accept()
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err != nil {
			l.cannotAccept(err)
			return
		}
		l.acceptPause = 0
		if l.clients() >= l.server.cfg.clients() && !l.makeRoom() {
			l.server.counters.tooMany.Add(1)
			l.sayOfClient("a client is refused: %d is the maximum", l.server.cfg.clients())
			_ = unix.Close(fd) // it was never used
			continue
		}
		l.server.counters.clients.Add(1)
		if c := newConn(l, fd); c != nil {
			l.conns = append(l.conns, c)
		}
	}
}

// makeRoom disconnects the client that has been in the handshake the longest, if there is one.
func (l *loop) makeRoom() bool {
	for _, c := range l.conns { // oldest first
		if c.negotiation == nil || c.dead {
			continue
		}
		l.server.counters.gaveWay.Add(1)
		l.sayOfClient("a client in the handshake is disconnected to make room for another")
		c.abandon()
		return true
	}
	return false
}

// spares reports whether a disk may take the place of a client that has not opened an export yet. A quarter of the
// places is reserved for disks without clients, at least one for each, as far as there are enough.
func (l *loop) spares(disk string) bool {
	has, left := map[string]int{}, l.server.cfg.clients()
	for _, c := range l.conns {
		if c.dead {
			continue
		}
		left--
		if c.export != nil {
			has[c.export.disk.Name]++
		}
	}
	exports := *l.server.exports.Load()
	share := max(1, l.server.cfg.clients()/4/max(1, len(exports)))
	if has[disk] < share {
		return true
	}
	for _, e := range exports {
		if e.disk.Name != disk {
			left -= max(0, share-has[e.disk.Name])
		}
	}
	return left >= 0
}

// clients returns the number of clients, without those that have gone and whose requests have not ended: otherwise the
// clients of a disk that hangs would keep out those of other disks.
func (l *loop) clients() (n int) {
	for _, c := range l.conns {
		if !c.dead {
			n++
		}
	}
	return n
}

// gone returns the number of clients of a disk that have gone, and whose requests have not ended.
func (l *loop) gone(disk string) (n int) {
	for _, c := range l.conns {
		if c.dead && c.export != nil && c.export.disk.Name == disk {
			n++
		}
	}
	return n
}

// hangUps detects clients of a disk, except one, that have closed their sockets, even if those have unread data.
func (l *loop) hangUps(g *gate, except *conn) {
	l.polled = l.polled[:0]
	for _, c := range l.conns {
		if c.gate == g && c != except && !c.dead {
			l.polled = append(l.polled, unix.PollFd{Fd: int32(c.fd)})
		}
	}
	if len(l.polled) == 0 {
		return
	}
	n, err := unix.Poll(l.polled, 0)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll(l.polled, 0)
	}
	if n <= 0 {
		return
	}
	for _, p := range l.polled {
		if p.Revents&unix.POLLHUP != 0 {
			l.owner[p.Fd].hungUp()
		}
	}
}

// Bounds of the pause after a failed accept, which doubles each time. What was missing, such as descriptors, must
// become available first; meanwhile the client waits in the backlog.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// cannotAccept stops accepting for a while. Otherwise epoll would report the waiting clients continuously, as long as
// there is no descriptor for them.
func (l *loop) cannotAccept(err error) {
	if !l.server.listener.wanted() { // accept4 allocates a descriptor before it finds that no client waits
		return
	}
	l.server.counters.unaccepted.Add(1)
	if l.acceptPause == 0 && time.Since(l.lastShortage) > shortagePause {
		l.lastShortage = time.Now()
		l.say("a client waits because it cannot be accepted: %v", err)
	}
	l.acceptPause = min(max(2*l.acceptPause, minAcceptPause), maxAcceptPause)
	l.acceptAt = time.Now().Add(l.acceptPause)
	l.rewatchListener(0)
}

func (l *loop) acceptAgain() {
	l.acceptAt = time.Time{}
	l.rewatchListener(unix.EPOLLIN)
}

func (l *loop) rewatchListener(mask uint32) {
	fd := l.server.listener.Descriptor()
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: mask, Fd: int32(fd)}); err != nil {
		l.say("the socket: epoll: %v", err)
	}
}

// expire disconnects clients that do not complete the handshake in time, that is, until they have read its last reply.
func (l *loop) expire() {
	var now time.Time
	for _, c := range l.conns {
		if c.negotiation == nil || c.dead {
			continue
		}
		if now.IsZero() {
			now = time.Now()
		}
		if now.After(c.deadline) {
			l.server.counters.slow.Add(1)
			l.sayOfClient("a client did not finish the handshake in %v", l.server.cfg.handshake())
			c.abandon()
		}
	}
}

func (l *loop) say(format string, args ...any) {
	if l.server.cfg.Log != nil {
		l.server.cfg.Log(fmt.Sprintf(format, args...))
	}
}

// sayOfClient logs an event caused by a client, the same line once in reportPause: otherwise clients that reconnect
// whenever they are disconnected would fill the log. [Stats] has the numbers.
func (l *loop) sayOfClient(format string, args ...any) {
	line, now := fmt.Sprintf(format, args...), time.Now()
	maps.DeleteFunc(l.said, func(_ string, at time.Time) bool { return now.Sub(at) >= reportPause })
	if _, repeated := l.said[line]; !repeated {
		l.said[line] = now
		l.say("%s", line)
	}
}

// reportPause is the minimum time between two lines about failed requests, and between two equal lines about clients.
const reportPause = time.Second

// shortagePause is the minimum time between two lines about clients that could not be accepted.
const shortagePause = time.Minute

// failed counts a request that the store failed, and logs the error if it is new.
func (l *loop) failed(e *export, err error) {
	l.server.counters.failed.Add(1)
	if l.server.cfg.Log == nil || time.Since(l.lastFailure) < reportPause {
		return
	}
	l.lastFailure = time.Now()
	if reason := fmt.Sprintf("disk %s: a request failed: %v", e.disk.Name, err); reason != l.lastReason {
		l.lastReason = reason
		l.say("%s", reason)
	}
}

func (l *loop) drop(i int) {
	c := l.conns[i]
	l.conns = slices.Delete(l.conns, i, i+1)
	if err := c.close(); err != nil {
		l.say("a client's end: %v", err)
	}
}

// stop begins the end of the loop.
func (l *loop) stop() {
	l.stopping = true
	l.deadline = time.Now().Add(l.server.cfg.drain())
	for _, c := range l.conns {
		c.stop()
	}
}

func (l *loop) over() bool {
	return l.stopping && (len(l.conns) == 0 || time.Now().After(l.deadline))
}

// finish frees everything. Closing a queue waits for operations still in flight.
func (l *loop) finish() {
	if l.inFlight() > 0 && l.server.cfg.Overdue != nil {
		l.server.cfg.Overdue()
	}
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, fmt.Errorf("a client's requests were not completed in %v", l.server.cfg.drain()), c.close())
	}
	errs = append(errs, l.unflushed...)
	errs = append(errs, l.server.listener.Close(), unix.Close(l.epoll))
	l.server.err = errors.Join(errs...)
}

func (l *loop) gate(name string) *gate {
	g := l.gates[name]
	if g == nil {
		g = &gate{disk: name}
		l.gates[name] = g
	}
	return g
}

// zero returns memory that is never written to.
func (l *loop) zero() []byte {
	if l.zeroes == nil {
		l.zeroes = make([]byte, zeroPiece)
	}
	return l.zeroes
}
