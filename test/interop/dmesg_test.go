package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/test/guest"
)

// A kernelLine is one message of the kernel's log.
type kernelLine struct {
	level int           // 0 (emergency) to 7 (debug)
	at    time.Duration // since the guest booted
	text  string
}

const levelWarning = 4

// parseKernelLog reads records of /dev/kmsg: "priority,sequence,µs,flags;text",
// then lines of properties that start with a space.
func parseKernelLog(s string) []kernelLine {
	var lines []kernelLine
	for line := range strings.Lines(s) {
		head, text, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ";")
		fields := strings.Split(head, ",")
		if !ok || len(fields) < 4 || strings.HasPrefix(line, " ") {
			continue
		}
		priority, err1 := strconv.Atoi(fields[0])
		micros, err2 := strconv.ParseInt(fields[2], 10, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		lines = append(lines, kernelLine{priority & 7, time.Duration(micros) * time.Microsecond, text})
	}
	return lines
}

var (
	ours = regexp.MustCompile(`(?i)\b(nvme|nvmet|rxe|rdma|infiniband|ib_)|nvme_|rxe_|rdma_`)

	// Any process may log a kernel bug.
	kernelBug = regexp.MustCompile(`\b(BUG|WARNING|Oops|Call Trace|blocked for more than|soft lockup)\b`)

	// What the host logs, at any level, when it gives up a controller.
	recovery = regexp.MustCompile(`(?i)reconnect|error recovery|I/O timeout|keep.?alive.*(fail|expired)|resetting controller`)

	// What it logs while a controller is away.
	away = regexp.MustCompile(`no usable path - requeuing I/O|callbacks suppressed`)

	// What it logs when a controller goes and comes back.
	controllerLost = regexp.MustCompile(`nvme nvme\d|` + away.String())

	// What it logs of a keep alive that it cancels because it disconnects (BLK_STS_TRANSPORT). A keep alive is under
	// way for half a second of every 2.5. If it was never sent, the logged time is that since the slot was last used.
	cancelledKeepAlive = regexp.MustCompile(`long keepalive RTT \(\d+ ms\)|failed nvme_keep_alive_end_io error=4$`)

	// What it logs when nvme-cli resets a controller.
	askedReset = regexp.MustCompile(`resetting controller|` + away.String())
)

// complaints returns the lines with level warning or worse from nvme or rxe, those that report a reconnect or reset,
// and kernel bugs, except for lines that allowed matches. allowed may be nil.
func complaints(lines []kernelLine, allowed *regexp.Regexp) []string {
	var bad []string
	for _, l := range withoutReplays(lines) {
		mine := ours.MatchString(l.text) && (l.level <= levelWarning || recovery.MatchString(l.text))
		if !mine && !kernelBug.MatchString(l.text) {
			continue
		}
		if allowed == nil || !allowed.MatchString(l.text) {
			bad = append(bad, fmt.Sprintf("[%.3f] %s", l.at.Seconds(), l.text))
		}
	}
	return bad
}

var (
	badID     = regexp.MustCompile(`genctr mismatch|got bad command_id`)
	badIDOn   = regexp.MustCompile(`got bad command_id .* on QP (0x[0-9a-f]+)$`)
	erroredQP = regexp.MustCompile(`^rxe\d+: qp#(\d+) do_complete: non-flush error status = 2$`)
)

// withoutReplays leaves out what rdma_rxe sometimes does to its own host. If a queue pair is in the error state by the
// time a response completes, rxe's do_complete goes back to RESPST_CHK_RESOURCE with the same packet. That repeats
// until the packet has filled every receive, 128 of them, and an RNR NAK is sent, or until rxe cannot fill one. rxe
// logs the latter (status 2, a malformed receive) first, since the host takes the other completions later.
// withoutReplays recognizes such a replay only by the very same line, many times, within a second of a reset; it then
// also leaves out the error on that queue pair. A wrong answer of ours is logged once.
func withoutReplays(lines []kernelLine) (kept []kernelLine) {
	var reset time.Duration
	seen := map[string]int{}
	replayed := map[uint64]bool{} // queue pairs
	for _, l := range lines {
		if strings.Contains(l.text, "resetting controller") {
			reset = l.at
		}
		if !badID.MatchString(l.text) || reset == 0 || l.at-reset >= time.Second {
			continue
		}
		if seen[l.text]++; seen[l.text] == manyReplays {
			if m := badIDOn.FindStringSubmatch(l.text); m != nil {
				qpn, _ := strconv.ParseUint(m[1], 0, 32)
				replayed[qpn] = true
			}
		}
	}
	for _, l := range lines {
		var qpn uint64
		if m := erroredQP.FindStringSubmatch(l.text); m != nil {
			qpn, _ = strconv.ParseUint(m[1], 10, 32)
		}
		if seen[l.text] < manyReplays && !replayed[qpn] {
			kept = append(kept, l)
		}
	}
	return kept
}

const manyReplays = 16

// A kernelLog is the log of a guest's kernel, which the guest copies continuously into its shared directory.
type kernelLog struct{ path string }

const kernelLogName = "kernel.log"

// follow starts the copying.
func follow(t *testing.T, g *guest.Guest, share string) kernelLog {
	t.Helper()
	_, err := g.Run(t.Context(), 10*time.Second, "setsid cat /dev/kmsg >>/mnt/host/"+kernelLogName+" 2>/dev/null </dev/null &")
	if err != nil {
		t.Fatal(err)
	}
	return kernelLog{filepath.Join(share, kernelLogName)}
}

// lines returns all messages so far. Every script ends with a message that has its number; lines waits for that of the
// given script.
func (k kernelLog) lines(t *testing.T, number int) []kernelLine {
	t.Helper()
	last := fmt.Sprintf("interop: %d done", number)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		b, err := os.ReadFile(k.path)
		if err == nil {
			lines := parseKernelLog(string(b))
			for i := len(lines) - 1; i >= 0; i-- {
				if lines[i].text == last {
					return lines[:i]
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the kernel's log lacks %q: %v", last, err)
		}
	}
}

// logEnd returns the number of lines in the host's log so far.
func (l *lab) logEnd(t *testing.T) int {
	t.Helper()
	return len(l.log.lines(t, l.scripts))
}

// wantCleanLog fails the test for every complaint of the host's kernel since line from, and for every bug of the peer's
// kernel since the last call. It returns the number of lines so far.
func (l *lab) wantCleanLog(t *testing.T, from int, allowed *regexp.Regexp) int {
	t.Helper()
	l.wantPeerSurvives(t)
	waited := l.waited(t)
	lines := l.log.lines(t, l.scripts)
	for _, c := range complaints(withoutCompleter(t, lines[from:]), allowed) {
		if rtt := keepAliveTrip(c); rtt > 0 && rtt < keepAlive && rtt < waited {
			t.Logf("the guests' processors waited %v for the machine's: %s", waited.Round(time.Millisecond), c)
			continue
		}
		// Two rxe ends lose each other now and then; our program is not involved.
		if l.other != nil && (recovery.MatchString(c) || away.MatchString(c)) {
			t.Logf("rxe against rxe: %s", c)
			continue
		}
		t.Errorf("kernel log: %s", c)
	}
	return len(lines)
}

// keepAlive is the kernel's keep alive timeout (KATO). The kernel warns of a round trip of a quarter of it.
const keepAlive = 5 * time.Second

var longTrip = regexp.MustCompile(`long keepalive RTT \((\d+) ms\)`)

// keepAliveTrip returns the round trip that a complaint names, or 0.
func keepAliveTrip(complaint string) time.Duration {
	m := longTrip.FindStringSubmatch(complaint)
	if m == nil {
		return 0
	}
	ms, _ := strconv.Atoi(m[1])
	return time.Duration(ms) * time.Millisecond
}

// waited returns how long a processor of the guests has waited for one of this machine's since the last call. The
// guest's clock goes on meanwhile, although the guest does not run.
func (l *lab) waited(t *testing.T) time.Duration {
	t.Helper()
	var all time.Duration
	for _, g := range []*guest.Guest{l.host, l.other} {
		if g == nil {
			continue
		}
		w, err := g.ProcessorWait()
		if err != nil {
			t.Fatal(err)
		}
		all = max(all, w)
	}
	since := all - l.waitedBefore
	l.waitedBefore = all
	return since
}

// wantPeerSurvives fails the test for every bug of the kernel of the peer's guest.
func (l *lab) wantPeerSurvives(t *testing.T) {
	t.Helper()
	if l.other == nil {
		return
	}
	b, err := os.ReadFile(l.peerLog.path)
	if err != nil {
		t.Fatal(err)
	}
	lines := parseKernelLog(string(b))
	for _, line := range withoutCompleter(t, lines[l.peerSeen:]) {
		if kernelBug.MatchString(line.text) {
			t.Errorf("the peer's kernel log: [%.3f] %s", line.at.Seconds(), line.text)
		}
	}
	l.peerSeen = len(lines)
}

// withoutCompleter leaves out, and logs, the warning that rxe gives once when it ends a queue pair after loss without
// reporting an error (see wantResetsExplained).
func withoutCompleter(t *testing.T, lines []kernelLine) (kept []kernelLine) {
	inside := false
	for _, l := range lines {
		if strings.Contains(l.text, "WARNING") && strings.Contains(l.text, "rxe_comp.c:827 rxe_completer") {
			inside = true
			t.Logf("rdma_rxe after loss: %s", l.text)
		}
		if !inside {
			kept = append(kept, l)
		}
		inside = inside && !strings.Contains(l.text, "end trace")
	}
	return kept
}

func TestComplaints(t *testing.T) {
	log := `6,100,10000001,-;nvme nvme0: creating 4 I/O queues.
6,101,11000001,-;nvme nvme0: Reconnecting in 2 seconds...
 SUBSYSTEM=nvme
4,102,12000001,-;nvme nvme0: resetting controller
4,103,12500001,-;hrtimer: interrupt took 11 ns
3,104,13000001,-;rdma_rxe: rxe_newlink: failed to add
12,105,14000001,-;WARNING: CPU: 1 PID: 8 at lib/refcount.c:28
not a line of the kernel
`
	got := complaints(parseKernelLog(log), askedReset)
	want := []string{
		"[11.000] nvme nvme0: Reconnecting in 2 seconds...",
		"[13.000] rdma_rxe: rxe_newlink: failed to add",
		"[14.000] WARNING: CPU: 1 PID: 8 at lib/refcount.c:28",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("complaints:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestReplays: only many equal lines, right after a reset, are left out.
func TestReplays(t *testing.T) {
	const reset, bad = "4,1,1000000,-;nvme nvme0: resetting controller\n", "3,2,1020000,-;nvme nvme0: got bad command_id 0x9043 on QP 0x1a\n"
	const failed = "3,2,1010000,-;rxe0: qp#26 do_complete: non-flush error status = 2\n"
	for name, c := range map[string]struct {
		log  string
		want int
	}{
		"a replay":                  {reset + strings.Repeat(bad, 128), 0},
		"a replay that ended early": {reset + failed + strings.Repeat(bad, 127), 0},
		"a wrong answer":            {reset + bad, 1},
		"without reset":             {strings.Repeat(bad, 128), 128},
		"an error without replay":   {reset + failed, 1},
		"an error beside a replay":  {reset + strings.Repeat(bad, 128) + strings.ReplaceAll(failed, "26", "27"), 1},
	} {
		if got := complaints(parseKernelLog(c.log), askedReset); len(got) != c.want {
			t.Errorf("%s: %d complaints, want %d", name, len(got), c.want)
		}
	}
}

// TestCompleter: rxe's own warning is left out with its trace, any other stays.
func TestCompleter(t *testing.T) {
	const trace = "4,3,1000002,-;Call Trace:\n4,4,1000003,-;---[ end trace 0000000000000000 ]---\n"
	const rxe = "4,1,1000000,-;WARNING: CPU: 0 PID: 36 at drivers/infiniband/sw/rxe/rxe_comp.c:827 rxe_completer+0xb9f/0xe40 [rdma_rxe]\n"
	const other = "4,2,1000001,-;WARNING: CPU: 0 PID: 36 at drivers/infiniband/sw/rxe/rxe_resp.c:100 rxe_receiver+0x1/0x2 [rdma_rxe]\n"
	for log, want := range map[string]int{rxe + trace: 0, other + trace: 2, rxe + trace + other + trace: 2} {
		if got := complaints(withoutCompleter(t, parseKernelLog(log)), nil); len(got) != want {
			t.Errorf("%q: complaints %q, want %d", log, got, want)
		}
	}
}

func TestKeepAliveTrip(t *testing.T) {
	for complaint, want := range map[string]time.Duration{
		"[217.493] nvme nvme0: long keepalive RTT (1292 ms)":   1292 * time.Millisecond,
		"[217.493] nvme nvme0: failed nvme_keep_alive_end_io":  0,
		"[217.493] nvme nvme0: long keepalive RTT (no number)": 0,
	} {
		if got := keepAliveTrip(complaint); got != want {
			t.Errorf("%q: %v, want %v", complaint, got, want)
		}
	}
}
