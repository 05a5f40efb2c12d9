package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/internal/yield"
)

// runner is a job in progress, owned by its thread. It does not allocate during the measurement. Its times are relative
// to group.base.
type runner struct {
	job   Job
	group *group
	queue backend.Queue
	yield yield.Loop
	watch backend.Watchable // the queue, if it can be waited for in the kernel
	event [1]unix.PollFd    // its descriptor

	slots   []slot // by tag
	batch   []backend.Request
	results []backend.Result
	flying  int

	places places
	pace   pace
	writes int   // since the last flush
	issued int64 // bytes since the measurement began

	start    time.Duration
	measured time.Duration // when the measurement begins
	deadline time.Duration // when it ends; 0: with Job.Limit
	tick     time.Duration // when periodic is due
	report   time.Duration // when the context and the progress are due
	giveUp   time.Duration // when to stop waiting for requests in flight; 0: never
	left     bool          // giveUp has passed
	slept    bool          // during the last poll
	counting bool

	content  content
	written  *bitmap // what was written, if it is to be verified
	verified uint64

	result  *Result
	samples samples
	usage   Usage // at the start of the measurement
	err     error
}

// A slot is the request in flight with a tag.
type slot struct {
	buf       []byte
	offset    int64
	length    int64
	direction Direction
	trimmed   bool          // the trimmed block must be written
	started   time.Duration // when the request was created
	issued    time.Duration // when the store had it
}

func newRunner(job Job, info backend.Info, queue backend.Queue, memory []byte, index uint64) *runner {
	random := rand.New(rand.NewPCG(job.Seed, index))
	r := &runner{
		job: job, queue: queue,
		slots:   make([]slot, job.Depth),
		batch:   make([]backend.Request, 0, job.Depth),
		results: make([]backend.Result, job.Depth),
		result:  newResult(job),
		samples: newSamples(&job),
		pace:    newPace(&job),
		content: content{job.Seed, job.VerifyBlock()},
	}
	r.places = newPlaces(&r.job, random)
	if w, ok := queue.(backend.Watchable); ok && !sleeps(queue) {
		r.watch = w
		r.event[0] = unix.PollFd{Fd: int32(w.Descriptor()), Events: unix.POLLIN}
	}
	size := job.MaxSize()
	stride := int(info.Stride(int64(size)))
	for i := range r.slots {
		r.slots[i].buf = memory[i*stride:][:size:size]
		if job.Pattern.Does(ToWrite) {
			noise(r.slots[i].buf, random.Uint64())
		}
	}
	if job.Verify && job.Pattern.Does(ToWrite) {
		r.written = newBitmap(job.blocks(ToWrite))
	}
	return r
}

func (r *runner) now() time.Duration { return time.Since(r.group.base) }

// load keeps requests in flight until the job ends.
func (r *runner) load(ctx context.Context, progress func(float64)) error {
	r.begin()
	last := r.start
	for tag := range r.job.Depth {
		r.next(tag, r.start)
	}
	r.release(r.start)
	r.submit()
	for idle := 0; (r.flying > 0 || !r.pace.empty()) && !r.left; {
		n := r.poll(idle)
		if idle++; n == 0 && idle%1024 != 0 && !r.pace.on && !r.slept {
			continue
		}
		now := r.now()
		if now >= r.tick { // first, since the requests that are now complete may be the first to be measured
			r.periodic(ctx, progress, now)
		}
		if n > 0 {
			idle, last = 0, now
			r.complete(r.results[:n], now)
		}
		if r.pace.on {
			r.release(now)
			r.submit()
		}
	}
	if progress != nil {
		progress(1)
	}
	r.end(last)
	return r.err
}

func (r *runner) begin() {
	r.start = r.now()
	r.measured = r.start + r.job.Ramp
	if r.job.Runtime > 0 {
		r.deadline = r.measured + r.job.Runtime
	}
	r.pace.begin(r.start)
	r.tick = r.measured
	if r.job.Ramp == 0 {
		r.measure()
	}
}

// measure begins the measurement.
func (r *runner) measure() {
	r.counting = true
	r.result.Began = time.Now()
	r.usage = usageNow()
}

func (r *runner) end(last time.Duration) {
	s := r.result
	s.Elapsed = max(last-r.measured, 0)
	if n := len(r.samples.all); n > 0 && r.samples.all[n-1].At >= s.Elapsed { // it lacks results of that time
		r.samples.all = r.samples.all[:n-1]
	}
	r.samples.take(r.sample(last))
	s.Samples = r.samples.all
	if r.counting { // otherwise the job was cut short before
		s.Usage = usageNow().since(r.usage, r.group.share)
	}
	for d := range Directions {
		s.Ops += s.Sides[d].Ops()
		s.Bytes += s.Sides[d].Bytes
	}
}

const (
	// reportEvery is how often the context is checked.
	reportEvery = 100 * time.Millisecond
	// leaveTime is how long a job that has ended waits for requests in flight: they may wait for a path that does not
	// come back.
	leaveTime = time.Second
)

// look checks whether the job must end.
func (r *runner) look(ctx context.Context, now time.Duration) {
	switch {
	case r.giveUp > 0:
		r.left = now >= r.giveUp
		return
	case r.err != nil:
	case ctx.Err() != nil:
		r.err = context.Cause(ctx)
	case r.group.failed.Load():
		r.err = errOther
	default:
		return
	}
	r.giveUp = now + leaveTime
}

// periodic does the periodic work that is due, and sets when it is due again.
func (r *runner) periodic(ctx context.Context, progress func(float64), now time.Duration) {
	if !r.counting && now >= r.measured {
		r.measure()
	}
	if now >= r.report {
		r.report = now + reportEvery
		r.look(ctx, now)
		if progress != nil {
			progress(r.progress(now))
		}
	}
	r.tick = r.report
	if !r.counting {
		r.tick = min(r.tick, r.measured)
		return
	}
	if now-r.measured >= r.samples.next && (r.deadline == 0 || now < r.deadline) {
		r.samples.take(r.sample(now))
	}
	r.tick = min(r.tick, r.measured+r.samples.next)
}

// progress returns the share of the job that is done.
func (r *runner) progress(now time.Duration) (share float64) {
	if r.deadline > 0 {
		share = float64(now-r.start) / float64(r.deadline-r.start)
	}
	if r.job.Limit > 0 {
		share = max(share, float64(r.issued)/float64(r.job.Limit))
	}
	return min(1, share)
}

func (r *runner) sample(now time.Duration) Sample {
	s := Sample{At: now - r.measured}
	for d := range Directions {
		if side := &r.result.Sides[d]; side.Lat != nil {
			s.Ops[d], s.Bytes[d], s.Slat[d], s.Clat[d] = side.Lat.Count, side.Bytes, side.Slat.Sum, side.Clat.Sum
		}
	}
	return s
}

// open reports whether another request may be made.
func (r *runner) open(now time.Duration) bool {
	return r.err == nil && (r.deadline == 0 || now < r.deadline) && (r.job.Limit == 0 || r.issued < r.job.Limit)
}

// A thread that waits for a file must not occupy a processor indefinitely: the kernel may need it to finish the very
// writes that the thread waits for, and does not always preempt a polling thread.
const (
	// pollsBeforeWait is the number of polls without a result, some 100 µs, before a wait in a queue that itself
	// decides whether to sleep.
	pollsBeforeWait = 200
	// pollsBeforeWaitCrowded is that number if other threads want the processor.
	pollsBeforeWaitCrowded = 8
	// pollsBeforeKernelWait is that number before a wait in the kernel, for a queue that does not sleep by itself.
	pollsBeforeKernelWait = 2000
	// pollsBeforeSleep is the number of polls, some milliseconds, before a sleep if the thread cannot wait in a queue or
	// the kernel, or if other requests become due meanwhile. That is long compared with a nap.
	pollsBeforeSleep = 20000
)

// A sleeper is a queue with its own wait.
type sleeper interface{ Wait() error }

func sleeps(q backend.Queue) bool {
	_, ok := q.(sleeper)
	return ok
}

// poll polls for results. idle is the number of polls without one before.
func (r *runner) poll(idle int) int {
	if r.flying == 0 {
		r.rest()
		r.yield.Paused()
		r.yield.Turn(false)
		return 0
	}
	n := r.queue.Poll(r.results)
	r.slept = false
	r.yield.Turn(n > 0)
	if n == 0 {
		r.yield.Polled(int64(r.now()))
	}
	crowded := r.yield.Crowded() && idle >= pollsBeforeWaitCrowded
	if n > 0 || idle < pollsBeforeWait && !crowded || !r.pace.empty() && idle < pollsBeforeSleep {
		return n
	}
	r.slept = true
	r.yield.Paused()
	switch {
	case !r.pace.empty(): // requests that become due have precedence: those in flight may be for a target that is away
		time.Sleep(nap)
	case sleeps(r.queue):
		_ = r.queue.(sleeper).Wait() // the next poll returns the error
	case r.watch != nil && (idle >= pollsBeforeKernelWait || crowded):
		r.wait()
	default:
		if r.slept = idle%pollsBeforeSleep == 0; r.slept {
			time.Sleep(time.Microsecond)
		}
		return 0
	}
	return r.queue.Poll(r.results)
}

// waitLimit is the longest wait in the kernel in milliseconds, since the job may have to stop.
const waitLimit = 100

// wait waits in the kernel for the queue.
func (r *runner) wait() {
	if r.watch.Arm() {
		_, _ = unix.Poll(r.event[:], waitLimit) // the next poll returns the error
	}
}

// complete handles results and, if time is left, submits the next requests.
func (r *runner) complete(results []backend.Result, now time.Duration) {
	if r.counting {
		r.result.Completed.add(len(results))
	}
	for _, res := range results {
		tag := int(res.Tag)
		r.flying--
		s := &r.slots[tag]
		if res.Err != nil {
			if r.err == nil {
				r.err = r.failure(tag, res.Err)
			}
			continue
		}
		if r.counting {
			r.result.record(s, now)
		}
		if r.job.Verify {
			r.done(s)
		}
		r.next(tag, now)
	}
	r.pace.completed(len(results))
	if len(r.batch) > 0 {
		r.submit()
	}
}

// next makes the next request with a tag, or leaves that to the job's pace.
func (r *runner) next(tag int, now time.Duration) {
	trimmed := r.slots[tag].trimmed
	switch {
	case r.pace.on && trimmed:
		r.pace.owing = append(r.pace.owing, tag)
	case r.pace.on:
		r.pace.waiting = append(r.pace.waiting, tag)
	case trimmed:
		r.issueWrite(tag, now)
	case r.open(now):
		r.issue(tag, r.places.direction(), now)
	}
}

// issue adds a request to the batch.
func (r *runner) issue(tag int, d Direction, now time.Duration) {
	s := &r.slots[tag]
	s.started = now
	if r.job.FlushEvery > 0 && r.writes >= r.job.FlushEvery {
		r.writes = 0
		s.direction = toFlush
		r.batch = append(r.batch, backend.Request{Tag: uint64(tag), Op: backend.OpFlush})
		return
	}
	s.offset, s.length = r.places.next(d)
	s.direction, s.trimmed = d, d == ToTrim && r.job.Pattern.pairs()
	if r.counting {
		r.issued += s.length
	}
	r.fill(tag)
}

// issueWrite adds the write of the block that a tag has trimmed.
func (r *runner) issueWrite(tag int, now time.Duration) {
	if r.err != nil {
		return
	}
	s := &r.slots[tag]
	s.started, s.direction, s.trimmed = now, ToWrite, false
	r.fill(tag)
}

// fill adds a slot's request to the batch, with the data to be written.
func (r *runner) fill(tag int) {
	s := &r.slots[tag]
	if s.direction == ToWrite {
		r.writes++
		if r.written != nil {
			r.content.fill(s.buf[:s.length], s.offset)
		}
	}
	r.pace.charge(s.direction, s.length, s.started)
	r.add(tag)
	if r.job.Verify { // do not count this time as the store's
		s.started = r.now()
	}
}

var operations = [Directions]backend.Op{backend.OpRead, backend.OpWrite, backend.OpDeallocate}

// add adds a slot's request to the batch.
func (r *runner) add(tag int) {
	s := &r.slots[tag]
	request := backend.Request{Tag: uint64(tag), Op: operations[s.direction], Offset: s.offset, Length: s.length}
	if s.direction != ToTrim {
		request.Buf = s.buf[:s.length]
	}
	if s.direction == ToRead && r.job.Verify {
		clear(request.Buf) // the old content may be the expected one
	}
	r.batch = append(r.batch, request)
}

// submit submits the batch. A queue takes all of it, since no more than its depth are in flight.
func (r *runner) submit() {
	if len(r.batch) == 0 {
		return
	}
	n := r.queue.Submit(r.batch)
	if r.flying += n; n < len(r.batch) && r.err == nil {
		r.err = fmt.Errorf("the store's queue took %d of %d requests", n, len(r.batch))
	}
	now := r.now()
	for i := range r.batch {
		r.slots[r.batch[i].Tag].issued = now
	}
	if r.counting {
		r.result.Submitted.add(n)
		r.result.Depths.add(r.flying, uint64(n))
	}
	r.batch = r.batch[:0]
}
