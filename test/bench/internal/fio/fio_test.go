package fio

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Result
		err        string
	}{
		{"a read", "note: x\n" + `{"jobs":[{"error":0,"read":{"iops":10.5},"write":{"iops":0},"usr_cpu":25,"sys_cpu":50}]}`, Result{IOPS: 10.5, CPU: 0.75}, ""},
		{"failed", `{"jobs":[{"error":5}]}`, Result{}, "failed"},
		{"cut off", `{"jobs":[`, Result{}, "fio's output"},
		{"silent", "", Result{}, "no JSON"},
	} {
		got, err := parse([]byte(c.text))
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v; want %v, %q", c.name, got, err, c.want, c.err)
		}
	}
}

func TestArgs(t *testing.T) {
	j := Job{File: "f", Pattern: "read", BlockSize: 4096, Depth: 2, Size: 8192, Runtime: 300 * time.Millisecond}
	for _, want := range []string{"--ioengine=io_uring", "--filename=f", "--bs=4096", "--runtime=300ms", "--iodepth=2"} {
		if !slices.Contains(j.args(), want) {
			t.Errorf("%s is missing from %v", want, j.args())
		}
	}
	j.Images = []string{"pool/image", "pool/other"}
	for _, want := range []string{"--ioengine=rbd", "--pool=pool", "--rbdname=image", "--rbdname=other", "--direct=1"} {
		if !slices.Contains(j.args(), want) {
			t.Errorf("%s is missing from %v", want, j.args())
		}
	}
	if j.URI = "nbd:"; !slices.Contains(j.args(), "--ioengine=nbd") {
		t.Errorf("no nbd in %v", j.args())
	}
}
