package main

import "testing"

// TestImageFormat checks the warning about a file with an image format, whose hosts see the file rather than the disk
// in it. It is printed by the command that exports the file, not only in the log.
func TestImageFormat(t *testing.T) {
	inOwnRunDir(t)
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect")
	file := c.write(t, "disk.qcow2", "QFI\xfb\x00\x00\x00\x03"+string(make([]byte, 1<<16-8)))
	const warning = "it contains a qcow2 image, which is served as it is, not as the disk in it: convert it with qemu-img convert -O raw"
	run := func(line ...string) {
		t.Helper()
		if o := command(t, append([]string{"namespace"}, line...)...).want(t, 0, "warning: namespace 9 of "+testNQN+": "+warning); o.errOut == "" {
			t.Errorf("%v warns in what is printed:\n%s", line, o.out)
		}
	}
	run("add", "9", "-n", testNQN, "--file", file, "--dry-run")
	run("add", "9", "-n", testNQN, "--file", file)
	command(t, "target", "check", c.write(t, "images.yaml", `version: 1
listeners: [{id: 1, address: 127.0.0.1}]
subsystems:
  - nqn: `+testNQN+`
    allow-any-host: true
    namespaces: [{nsid: 1, file: {path: `+c.write(t, "disk.vmdk", "KDMV"+string(make([]byte, 1<<16-4)))+`}}]
`)).want(t, 0, "subsystems[0].namespaces[0]: it contains a VMDK image")
}
