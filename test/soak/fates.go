package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/test/soak/internal/client"
)

// pause waits for d and reports whether the run continues.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// killTargets kills the target "kept" again and again and restarts it.
func (l *lab) killTargets(ctx context.Context, random *rand.Rand) {
	t := l.targets["kept"]
	for pause(ctx, l.o.killEvery-5*time.Second+time.Duration(random.Int64N(int64(10*time.Second)))) {
		t.mu.Lock()
		t.proc.kill()
		// Long enough for the answers that its hosts had received to be reported.
		away := 3*client.ReportEvery + time.Duration(random.Int64N(int64(4*time.Second)))
		l.story.add("target "+t.name, "killed, for %.1f s", away.Seconds())
		pause(ctx, away)
		err := l.startTarget(ctx, t)
		t.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.violation("after a kill: %v", err)
			return
		}
		l.story.add("target "+t.name, "serves again, process %d", t.proc.pid())
		l.awaitReturn(ctx, t.name)
	}
}

// awaitReturn measures how long after the start of a target each of its hosts gets an answer.
func (l *lab) awaitReturn(ctx context.Context, target string) {
	began := time.Now()
	base := map[*hostState]uint64{}
	l.mu.Lock()
	for _, h := range l.hosts {
		if h.plan.target == target && h.ready {
			base[h] = h.requests
		}
	}
	l.totals.Kills["target"]++
	l.mu.Unlock()
	for len(base) > 0 && pause(ctx, 20*time.Millisecond) {
		took := time.Since(began)
		l.mu.Lock()
		for h, n := range base {
			if h.requests > n {
				l.totals.Returns.Count(took)
				delete(base, h)
			}
			if !h.ready {
				delete(base, h) // it was killed meanwhile
			}
		}
		l.mu.Unlock()
		if took > l.o.stall {
			return // watch reports the stall
		}
	}
	l.story.add("soak", "all hosts of %s are back after %.1f s", target, time.Since(began).Seconds())
}

// killHosts kills hosts, each at the interval of its plan.
func (l *lab) killHosts(ctx context.Context, random *rand.Rand) {
	next := map[*hostState]time.Time{}
	for pause(ctx, time.Second) {
		for _, h := range l.hosts {
			if h.plan.killEvery == 0 {
				continue
			}
			if next[h].IsZero() {
				next[h] = time.Now().Add(h.plan.killEvery)
			}
			if time.Now().Before(next[h]) {
				continue
			}
			next[h] = time.Now().Add(h.plan.killEvery/2 + time.Duration(random.Int64N(int64(h.plan.killEvery))))
			if err := l.killHost(h); err != nil {
				l.violation("%s does not start again: %v", h.plan.name, err)
				return
			}
		}
	}
}

// killHost kills a host: its client or nvmeof attach. The client of a killed attach must find that out.
func (l *lab) killHost(h *hostState) error {
	l.mu.Lock()
	l.totals.Kills["host"]++
	h.progress = time.Now()
	l.mu.Unlock()
	l.story.add(h.plan.name, "killed")
	if h.plan.attach {
		h.attach.kill()
		_ = os.Remove(l.socket(h)) // attach replaces a stale socket; removed here because the client does not wait for that
		return l.startAttach(h)
	}
	l.killClient(h)
	return l.startClient(h)
}

// churn makes random changes to the targets while hosts work.
func (l *lab) churn(ctx context.Context, random *rand.Rand) {
	c, err := l.newChurn(random)
	if err != nil {
		l.violation("churn: %v", err)
		return
	}
	defer c.close()
	for pause(ctx, time.Second+time.Duration(random.Int64N(int64(6*time.Second)))) {
		a := actions[random.IntN(len(actions))]
		target := targets()[random.IntN(2)]
		if a.lasting {
			target = "lasting"
		}
		l.mu.Lock()
		l.totals.Actions[a.name]++
		l.mu.Unlock()
		l.story.add("churn", "%s, target %s", a.name, target)
		if err := a.do(c, ctx, l.targets[target]); err != nil && ctx.Err() == nil {
			l.story.add("churn", "%s: %v", a.name, err)
			l.countError("churn, "+a.name, err)
		}
	}
}

// attack runs the raw peer against the target "lasting", one attack after the other. Whether an attack harms the
// target's hosts shows in their own results. Eight minutes of attacks are followed by twelve without, to see what
// resources remain in use.
func (l *lab) attack(ctx context.Context, random *rand.Rand) {
	attacks, err := l.attacks()
	if err != nil {
		l.violation("gremlin: %v", err)
		return
	}
	for len(attacks) > 0 && pause(ctx, time.Duration(20+random.IntN(40))*time.Second) {
		if !underAttack(time.Since(l.story.began)) {
			continue
		}
		name := attacks[random.IntN(len(attacks))]
		target := l.addrs.listener("lasting", 1+random.IntN(2))
		const seconds = 20
		l.story.add("gremlin", "%s, on %v", name, target)
		l.mu.Lock()
		l.attacked = time.Now()
		l.mu.Unlock()
		p, err := start("gremlin", nil, nil, l.gremlin, "-target", target.String(), "-nqn", string(subsystemNQN(churnNQN)), "-only", "^"+name+"$",
			"-honest", "none", "-seconds", fmt.Sprint(seconds), "-rest", "1s", "-seed", fmt.Sprint(random.Uint32()))
		if err != nil {
			l.violation("gremlin: %v", err)
			return
		}
		select {
		case <-p.exited:
		case <-time.After(4 * seconds * time.Second):
			p.kill()
		case <-ctx.Done():
			p.kill()
			return
		}
		l.story.add("gremlin", "%s has ended: %v, %q", name, p.err, p.lines())
		l.mu.Lock()
		l.totals.Actions["gremlin, "+name]++
		l.attacked = time.Now()
		l.mu.Unlock()
	}
}

// underAttack reports whether attacks run at that time after the start.
func underAttack(after time.Duration) bool {
	minute := after % (20 * time.Minute) / time.Minute
	return minute >= 4 && minute < 12
}

// quiet is how long after an attack samples are ignored. The Go runtime collects a heap that does not grow every two
// minutes, and returns unused memory later.
const quiet = 6 * time.Minute

// attacks returns the names of the raw peer's attacks on targets.
func (l *lab) attacks() (names []string, err error) {
	if l.gremlin == "" {
		return nil, nil
	}
	out, err := exec.Command(l.gremlin, "-list").Output()
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		name, does, _ := strings.Cut(line, " ")
		if strings.HasPrefix(strings.TrimSpace(does), "a target that ") {
			continue // a malice against hosts
		}
		names = append(names, name)
	}
	return names, nil
}
