// Package fio runs fio, and the block servers that fio loads.
package fio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
)

// A Job is one load. Exactly one of URI, File and Images is set.
type Job struct {
	URI       string   // URI of an NBD server
	File      string   // opened for direct I/O through io_uring
	Images    []string // POOL/IMAGE of Ceph, through librbd without its cache; each image gets the load
	Conf      string   // configuration file of the images' cluster
	Pattern   string   // randread, randwrite, read or write
	BlockSize int
	Depth     int
	Size      int64
	Runtime   time.Duration
	Ramp      time.Duration
	Once      bool // once through all of Size, without a time limit
}

// A Result is what fio measured.
type Result struct {
	IOPS float64 // of all images
	CPU  float64 // processors that its jobs used

	Process time.Duration // processor time that fio used with all its threads, from its start on
}

// Missing returns why fio cannot be used with an engine, or "" if it can.
func Missing(engine string) string {
	out, err := exec.Command("fio", "--enghelp").CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "fio is not installed"
	case err != nil:
		return fmt.Sprintf("fio --enghelp: %v", err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if name == engine {
			return ""
		}
	}
	return "this fio has no engine " + engine
}

func (j *Job) args() []string {
	args := []string{
		"--thread", "--output-format=json", "--norandommap", "--randrepeat=0",
		"--rw=" + j.Pattern, fmt.Sprintf("--bs=%d", j.BlockSize), fmt.Sprintf("--iodepth=%d", j.Depth),
		fmt.Sprintf("--size=%d", j.Size),
	}
	if !j.Once {
		args = append(args, "--time_based", fmt.Sprintf("--runtime=%dms", j.Runtime.Milliseconds()),
			fmt.Sprintf("--ramp_time=%dms", j.Ramp.Milliseconds()))
	}
	switch {
	case j.URI != "":
		return append(args, "--name=bench", "--ioengine=nbd", "--uri="+j.URI)
	case len(j.Images) == 0:
		return append(args, "--name=bench", "--ioengine=io_uring", "--direct=1", "--filename="+j.File)
	}
	// Options before the first name apply to all jobs.
	args = append(args, "--ioengine=rbd", "--direct=1", "--clientname=admin", "--group_reporting")
	for _, name := range j.Images {
		pool, image, _ := strings.Cut(name, "/")
		args = append(args, "--name=bench", "--pool="+pool, "--rbdname="+image)
	}
	return args
}

// Run runs a job on the given processors.
func Run(cores process.Cores, j Job) (Result, error) {
	cmd := exec.Command("fio", j.args()...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if j.Conf != "" {
		cmd.Env = append(os.Environ(), "CEPH_CONF="+j.Conf)
	}
	if err := cores.Start(cmd); err != nil {
		return Result{}, fmt.Errorf("fio: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return Result{}, fmt.Errorf("fio: %w: %s%s", err, said.String(), out.String())
	}
	r, err := parse(out.Bytes())
	r.Process = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, err
}

// parse parses fio's JSON, before which fio may print notes.
func parse(out []byte) (Result, error) {
	var doc struct {
		Jobs []struct {
			Error       int
			Read, Write struct{ IOPS float64 }
			User        float64 `json:"usr_cpu"` // percent
			System      float64 `json:"sys_cpu"`
		}
	}
	at := bytes.IndexByte(out, '{')
	if at < 0 {
		return Result{}, fmt.Errorf("fio printed no JSON but %q", out)
	}
	if err := json.Unmarshal(out[at:], &doc); err != nil {
		return Result{}, fmt.Errorf("fio's output: %w", err)
	}
	if len(doc.Jobs) != 1 || doc.Jobs[0].Error != 0 {
		return Result{}, fmt.Errorf("fio's job failed: %s", out)
	}
	job := doc.Jobs[0]
	return Result{IOPS: job.Read.IOPS + job.Write.IOPS, CPU: (job.User + job.System) / 100}, nil
}
