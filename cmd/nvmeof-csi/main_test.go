package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func run(ctx context.Context, args ...string) error {
	cmd := command()
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const config = "targets:\n  - {name: a, control: 'unix:/none', subsystem: 'nqn.2026-11.org.example:csi', directory: /srv}\n"

// TestServes checks that the program serves as its flags say until it is told to end.
func TestServes(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/csi.yaml", config)
	put(t, dir+"/hostnqn", "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001\n")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	at := "unix://" + filepath.Join(dir, "csi.sock")
	go func() {
		ended <- run(ctx, "--endpoint", at, "--config", dir+"/csi.yaml", "--node", "--nvme-dir", dir, "-v")
	}() // ends with ctx
	for { // a client that finds no socket waits a second before it retries
		if _, err := os.Lstat(filepath.Join(dir, "csi.sock")); err == nil || len(ended) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := csi.NewNodeClient(c).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{}, grpc.WaitForReady(true))
	if err != nil || r.GetNodeId() != "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001" {
		t.Errorf("%v, %v", r, err)
	}
	if err := run(t.Context(), "--endpoint", at, "--config", dir+"/csi.yaml"); err == nil {
		t.Error("two serve at one socket")
	}
	_ = c.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "csi.sock")); err == nil {
		t.Error("the socket stays")
	}
}

func TestWrongUse(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/csi.yaml", config)
	put(t, dir+"/hostid", "no UUID")
	const nqn = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001"
	for args, want := range map[string]string{
		"":                         "nothing to serve",
		"--config " + dir:          "is a directory",
		"--node --nvme-dir /none":  "hostnqn",
		"--node --hostnqn host":    "NQN of the host",
		"--node --ctrl-loss-tmo 0": "-1 for no limit",
		"--node --hostnqn " + nqn + " --nvme-dir " + dir:                            "identifier of the host",
		"--node --hostnqn nqn.2026-11.org.example:host --nvme-dir /none":            "identifier of the host",
		"--node --hostnqn " + nqn + " --nvme-dir " + dir + "/csi.yaml":              "not a directory",
		"--config " + dir + "/csi.yaml --endpoint tcp://127.0.0.1:1":                "unix:PATH",
		"--config " + dir + "/csi.yaml --endpoint unix://" + dir + "/none/csi.sock": "no such",
		"more": "unknown command",
	} {
		if err := run(t.Context(), strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if version() == "" {
		t.Error("there is no version")
	}
}
