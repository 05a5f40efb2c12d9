package disk

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// This test binary, started again with the variable set, works on a file and kills itself at a point: "ENGINE POINT
// PATH".
const killVariable = "NVMEOF_DISK_TEST_KILL"

func TestMain(m *testing.M) {
	if role := os.Getenv(killVariable); role != "" {
		dieAt(role)
		return
	}
	os.Exit(m.Run())
}

const killBlocks = 8

// A killer lets a number of calls and outcomes pass between a queue and its engine, and then kills the process like
// kill -9.
type killer struct {
	engine
	left *int
}

func (e *killer) pass() {
	if *e.left--; *e.left < 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (e *killer) start(c call) {
	e.pass()
	e.engine.start(c)
}

func (e *killer) reap(outs []outcome) int {
	n := e.engine.reap(outs)
	for range n {
		e.pass()
	}
	return n
}

// dieAt writes numbered blocks, several at a time, and prints each number once its write is acknowledged.
func dieAt(role string) {
	fields := strings.SplitN(role, " ", 3)
	kind, _ := ParseEngine(fields[0])
	left, _ := strconv.Atoi(fields[1])
	cfg := Config{Info: backend.Info{Size: killBlocks * 4096}, Options: Options{Engine: kind}}
	d, err := attach(fields[2], cfg)
	exitOn(err)
	inner := d.newEngine
	d.newEngine = func(d *Disk, calls int, notify func()) (engine, error) {
		e, err := inner(d, calls, notify)
		return &killer{e, &left}, err
	}
	q, err := d.NewQueue(8, nil)
	exitOn(err)
	var got [8]backend.Result
	acknowledge := func() {
		n := q.Poll(got[:])
		for _, r := range got[:n] {
			exitOn(r.Err)
			fmt.Println(r.Tag)
		}
		if n == 0 { // the disk takes a while
			time.Sleep(20 * time.Microsecond)
		}
	}
	for tag := uint64(1); tag <= 24; tag++ {
		r := backend.Request{Tag: tag, Op: backend.OpWrite, FUA: tag%3 == 0, Offset: int64(tag*5%killBlocks) * 4096}
		if tag%7 == 0 {
			r.Op = backend.OpFlush
		} else {
			r.Buf = backendtest.Buffer(4096, 4096)
			r.Length = 4096
			for i := 0; i < len(r.Buf); i += 8 {
				binary.LittleEndian.PutUint64(r.Buf[i:], tag)
			}
		}
		for q.Submit([]backend.Request{r}) == 0 {
			acknowledge()
		}
		acknowledge()
	}
	for !q.Idle() {
		acknowledge()
	}
	fmt.Println("end")
}

func exitOn(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// kill -9 at every point: no block is torn, and each holds what was last acknowledged or a newer write that was in
// progress.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	engines := []Engine{EngineThreads, EngineURing}
	if err := backendtest.NoRings(); err != nil {
		engines = engines[:1]
		t.Logf("only threads are tested: %v", err)
	}
	for _, engine := range engines {
		t.Run(engine.String(), func(t *testing.T) {
			t.Parallel()
			point := 0
			for !killedAt(t, engine, point) {
				if point++; point > 200 {
					t.Fatal("the process never reaches its end")
				}
			}
			if point < 40 {
				t.Errorf("only %d points", point)
			}
		})
	}
}

// killedAt reports whether the process ended before the point.
func killedAt(t *testing.T, engine Engine, point int) (end bool) {
	t.Helper()
	path := t.TempDir() + "/namespace.img"
	if err := os.WriteFile(path, make([]byte, killBlocks*4096), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v %d %s", killVariable, engine, point, path))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var promised [killBlocks]uint64
	for lines := bufio.NewScanner(out); lines.Scan(); {
		tag, err := strconv.ParseUint(lines.Text(), 10, 64)
		switch {
		case lines.Text() == "end":
			end = true
		case err != nil:
			t.Fatalf("point %d: the process says %q", point, lines.Text())
		case tag%7 != 0:
			promised[tag*5%killBlocks] = max(promised[tag*5%killBlocks], tag)
		}
	}
	if err := cmd.Wait(); end != (err == nil) {
		t.Fatalf("point %d: end %v, %v", point, end, err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for block, want := range promised {
		b := content[block*4096:][:4096]
		got := binary.LittleEndian.Uint64(b)
		for i := 0; i < len(b); i += 8 {
			if v := binary.LittleEndian.Uint64(b[i:]); v != got {
				t.Errorf("point %d: block %d is torn: %d and %d", point, block, got, v)
				break
			}
		}
		if got < want {
			t.Errorf("point %d: block %d has write %d, %d was acknowledged", point, block, got, want)
		}
	}
	return end
}
