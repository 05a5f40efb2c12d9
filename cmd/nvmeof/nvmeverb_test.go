package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/statusreport"
)

// at1 returns a command line for the target's only subsystem.
func (s *testTarget) at1(line string) []string {
	words := strings.Fields(line)
	return s.at(words[0], append([]string{"-n", testNQN}, words[1:]...)...)
}

// TestVerbs runs nvme-cli's commands on one target. Tests of internal/nvmecli compare their output with nvme-cli's.
func TestVerbs(t *testing.T) {
	inOwnRunDir(t)
	s := startTarget(t, "--export", "mem:16MiB", "--export", "mem:8MiB,bs=4096", "--allow-any-host")
	for line, want := range map[string]string{
		"smart-log":                                    "Smart Log for NVME device:nvme0 namespace-id:ffffffff\n",
		"smart-log --namespace-id 1 -H":                "      Available Spare[0]             : 0\n",
		"smart-log -o json":                            `"avail_spare":100`,
		"error-log -e 2":                               "Error Log Entries for device:nvme0 entries:2\n",
		"ana-log":                                      "grpid\t:\t1\nnnsids\t:\t2\n",
		"ana-log -g -o json":                           `"nnsids":0`,
		"effects-log":                                  "IOCS25   [Copy                            ] 00000003\n",
		"effects-log -c 0 -H":                          "ACS6     [Identify                        ] 00000001  CSUPP+",
		"fw-log":                                       "afi  : 0x1\nfrs1 : 0x2020202020302e31 (1.0.....)\n",
		"supported-log-pages":                          "LID 0x2 - SMART / Health Information\n",
		"changed-ns-list-log":                          "no ns changed\n",
		"resv-notif-log":                               "0 (Empty Log Page)",
		"fid-support-effects-log":                      "FID 07 -> Support Effects Log: 00200001\n",
		"mi-cmd-support-effects-log -o json":           `"mi_command_support":[]`,
		"get-log --log-id 3 --log-len 16":              "0000: 01 00 00 00 00 00 00 00 31 2e 30 20 20 20 20 20 \"........1.0.....\"\n",
		"list-ns":                                      "[   0]:0x1\n[   1]:0x2\n",
		"list-ns --namespace-id 2 --all":               "[   0]:0x2\n",
		"list-ns -y 0 -o json":                         `"nsid":2`,
		"list-ctrl":                                    "num of ctrls present: 1\n",
		"ns-descs":                                     "NVME Namespace Identification Descriptors NS 1:\nnguid   : ",
		"nvm-id-ns --namespace-id 2":                   "NVMe NVM Identify Namespace 2:\nlbstm : 0\n",
		"cmdset-ind-id-ns -H":                          "  [0:0] : 0x1\tNamespace Multipath Capable\n",
		"nvm-id-ctrl":                                  "vsl    : 0\n",
		"get-feature -f 0x04 -H":                       "Temperature Threshold         (TMPTH): 80 °C (353 K)\n",
		"get-feature -f 6 --sel 3 -o json":             `"Supported capabilities":"0x00000004"`,
		"get-feature -f 0x84 --namespace-id 1":         "get-feature:0x84 (Namespace Write Protect), Current value:00000000\n",
		"set-feature -f 4 -V 299":                      "set-feature:0x04 (Temperature Threshold), value:0x0000012b, cdw12:00000000, save:0\n",
		"set-feature -f 0x0e -V 5":                     "0000: 05 00 00 00 00 00 00 00",
		"show-regs":                                    "version : 0x20000\n",
		"show-regs -H":                                 "\tEnable                              (EN): Yes\n",
		"show-regs -o json":                            `"vs":131072`,
		"get-property -O 0x1c":                         "property: 0x1c (Controller Status), value: 0x1\n",
		"get-property -O 0x14 -H":                      "I/O Command Set Selected           (CSS): ",
		"dsm --slbs 0,100 -b 8,8 -d":                   "NVMe DSM: success\n",
		"write-zeroes --start-block 8 -c 7":            "NVME Write Zeroes Success\n",
		"verify --start-block 8 -c 7":                  "NVME Verify Success\n",
		"copy -d 100 --slbs 0,8 -b 7,7":                "NVMe Copy: success\n",
		"admin-passthru -O 6 -l 4096 -r --cdw10 1":     "Admin Command Identify is Success and result: 0x00000000\n",
		"io-passthru -O 0 -d":                          "opcode       : 00\n",
		"io-passthru -O 2 --namespace-id 2 -l 4096 -r": "IO Command Read is Success and result: 0x00000000\n",
		"resv-report":                                  "\nNVME Reservation status:\n\ngen       : ",
		"resv-report -e -o json --namespace-id 2":      `"regctlext":[]`,

		"id-ctrl -v":                    "  [8:8] : 0x1\tCopy Supported\n",
		"id-ctrl -H --timeout 5000":     "  [7:4] : 0x6\tMax SQ Entry Size (64)\n",
		"id-ctrl -V":                    "vs[]:\n       0  1  2",
		"id-ns --namespace-id 2 -H":     "nsze    : 0x800\tTotal size in logical blocks\n",
		"id-ns --force -v --timeout 5s": "Data Size: 512 bytes - Relative Performance: 0 Best (in use)\n",
		"list-ns -v":                    "Identifier    1: NSID 0x2\n",
		"ns-descs -v":                   "nidl    : 16\ntype    : nguid\n",
		"nvm-id-ctrl -v":                "  [0:0] : 0\tReporting Allocated LBA Not Supported\n",
		"supported-log-pages -v":        "LID 0x2 - SMART / Health Information\n  LSUPP is supported\n",
		"flush -v":                      "NVMe Flush: success\n",
		"get-feature -f 4 -C":           "",
		"get-feature -f 4 -C -o json":   "{}\n",
		"get-feature -f 0x0e -C":        "get-feature:0x0e (Timestamp), Default value:00000000\n",
		"read --start-block 5 -c 7 -z 4096 --dry-run -f": "control      : 4000\nnblocks      : 0007\n",
		"read --start-block 5 -c 7 -z 4096 -V -l -p 0":   "slba         : 5\n",
		"write-zeroes --start-block 8 -c 7 -l":           "NVME Write Zeroes Success\n",
		"admin-passthru -O 6 -d --timeout 700":           "timeout_ms   : 000002bc\n",
		"admin-passthru -O 6 -l 4096 -r --cdw10 1 -T":    "Admin Command Identify latency: ",
	} {
		t.Run(line, func(t *testing.T) {
			start := time.Now()
			command(t, s.at1(line)...).want(t, 0, want)
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("took %v: the target holds commands for a namespace that its host has not identified", d)
			}
		})
	}
}

// TestAllFeatures reads all features, one of which requires the extended host identifier. The JSON is one document.
func TestAllFeatures(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	o := command(t, s.at1("get-feature")...).want(t, 0, "get-feature:0x07 (Number of Queues), Current value:", "get-feature:0x81 (Host Identifier), Current value:")
	if strings.Contains(o.out, "get-feature:0x08") || !strings.Contains(o.errOut, "get-feature:0x84") && !strings.Contains(o.out, "get-feature:0x80") {
		t.Errorf("features: %s%s", o.out, o.errOut)
	}
	for _, line := range []string{"get-feature --cdw11 1 -o json", "get-feature -o json", "get-feature --sel 1 -o json"} {
		o = command(t, s.at1(line)...).want(t, 0, `"feature: 0x81":[`)
		if !json.Valid([]byte(o.out)) {
			t.Errorf("%s: no JSON: %s", line, o.out)
		}
	}
	command(t, s.at1("get-feature --data-len 4")...).want(t, exitFailed, "SGL")
	o = command(t, s.at1("get-feature --data-len 4 -o json")...).want(t, exitFailed, `"error":"Data SGL Length Invalid`)
	var report strings.Builder
	statusreport.Print(&report, o.err)
	if !json.Valid([]byte(o.out)) || report.String() != "" {
		t.Errorf("one that is refused for a reason of its own: %s%s", o.out, &report)
	}
}

// TestGetLogJSON checks that the JSON is one object that contains each byte.
func TestGetLogJSON(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	raw := command(t, s.at1("get-log --log-id 3 --log-len 20 -b")...).want(t, 0)
	o := command(t, s.at1("get-log --log-id 3 --log-len 20 -o json")...).want(t, 0)
	var got, want struct {
		Device string `json:"device"`
		Log    int    `json:"log_id"`
		NSID   int64  `json:"nsid"`
		Data   string `json:"data"`
	}
	want.Device, want.Log, want.NSID, want.Data = "nvme0", 3, 0xffffffff, hex.EncodeToString([]byte(raw.out))
	if err := json.Unmarshal([]byte(o.out), &got); err != nil || got != want {
		t.Errorf("%v: %s", err, o.out)
	}
}

// TestErrorsAsJSON checks that with -o json any error after the start of a command is an object on standard output.
func TestErrorsAsJSON(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{s.at1("id-ns --namespace-id 99 -o json"), exitUsage, "--namespace-id 99: no such namespace; the subsystem has: 1"},
		{s.at("id-ctrl", "-n", "nqn.2026-11.org.example:no", "-o", "json"), exitConnection, "no such subsystem here"},
		{s.at("id-ctrl", "-o", "json"), exitUsage, "--nqn is missing"},
		{s.at1("resv-report --namespace-id 7 -o json"), exitUsage, "no such namespace"},
	} {
		o := command(t, test.args...).want(t, test.code)
		var report strings.Builder
		statusreport.Print(&report, o.err)
		var doc struct{ Error string }
		if err := json.Unmarshal([]byte(o.out), &doc); err != nil || !strings.Contains(doc.Error, test.want) || report.String() != "" {
			t.Errorf("%q prints %q (%v) and reports %q", test.args, o.out, err, report.String())
		}
	}
}

// TestVerbsRaw checks that raw output is the unchanged data.
func TestVerbsRaw(t *testing.T) {
	s := startTarget(t, "--export", "mem:16MiB", "--allow-any-host")
	for line, size := range map[string]int{
		"smart-log -b": capsule.SMARTLogSize, "fw-log -o binary": capsule.FirmwareLogSize, "error-log -b -e 3": 3 * capsule.ErrorLogEntrySize,
		"changed-ns-list-log -b": capsule.NamespaceListSize, "get-log -i 2 -l 8 -b": 8, "ns-descs -b": capsule.IdentifySize,
		"ana-log -o binary": 16 + 32 + 4, "effects-log -b -c 0": capsule.EffectsLogSize, "get-feature -f 0x0e -b": 8,
		"resv-report -b --numd 64": 256, "admin-passthru -O 6 --cdw10 1 -l 4096 -r -b": 4096,
	} {
		if o := command(t, s.at1(line)...).want(t, 0); len(o.out) != size {
			t.Errorf("%s: %d bytes, want %d", line, len(o.out), size)
		}
	}
}

// TestVerbStatus checks that a rejection is one line in nvme-cli's words, or an object.
func TestVerbStatus(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--export", "mem:1MiB", "--allow-any-host")
	command(t, s.at1("set-feature -f 0x84 -V 2 --namespace-id 2")...).want(t, 0) // protected until the target ends
	for line, text := range map[string]string{
		"get-log -i 7 -l 512":                       "NVMe status: Invalid Log Page: The log page indicated is invalid(0x4109)",
		"get-feature -f 3":                          "NVMe status: Invalid Field in Command: A reserved coded value or an unsupported value in a defined field(0x4002)",
		"set-feature -f 0x84 -V 0 --namespace-id 2": "NVMe status: Feature Not Changeable: The Feature Identifier is not able to be changed(0x410e)",
		"set-feature -f 6 -V 1 --save":              "NVMe status: Feature Identifier Not Saveable: The Feature Identifier specified does not support a saveable value(0x410d)",
		"write-zeroes --start-block 99999":          "NVMe status: LBA Out of Range: The command references an LBA that exceeds the size of the namespace(0x4080)",
		"ns-descs --namespace-id 7":                 "NVMe status: Invalid Namespace or Format: The namespace or the format of that namespace is invalid(0x400b)",
		"io-passthru -O 0x7e":                       "NVMe status: Invalid Command Opcode: A reserved coded value or an unsupported value in the command opcode field(0x4001)",
		"read --start-block 99999 -z 512":           "NVMe status: LBA Out of Range: The command references an LBA that exceeds the size of the namespace(0x4080)",
		"copy -d 5 --slbs 1 -b 1 -F 3 -N 1":         "NVMe status: Invalid Field in Command: A reserved coded value or an unsupported value in a defined field(0x4002)",
		"get-property -O 0x28":                      "NVMe status: Invalid Field in Command: A reserved coded value or an unsupported value in a defined field(0x4002)",
	} {
		o := command(t, s.at1(line)...).want(t, exitFailed)
		var report strings.Builder
		if statusreport.Print(&report, o.err); report.String() != text+"\n" || o.out != "" {
			t.Errorf("%s reports %q and prints %q", line, report.String(), o.out)
		}
		o = command(t, s.at1(line+" -o json")...).want(t, exitFailed)
		report.Reset()
		statusreport.Print(&report, o.err)
		var doc map[string]any
		if err := json.Unmarshal([]byte(o.out), &doc); err != nil || report.String() != "" {
			t.Errorf("%s -o json prints %q (%v) and reports %q", line, o.out, err, report.String())
		}
	}
	var report strings.Builder
	statusreport.Print(&report, errors.New("anything else"))
	if report.String() != "nvmeof: anything else\n" {
		t.Errorf("%q", report.String())
	}
}

// TestListVerbose checks subsystems, controllers and namespaces, each in a table or in an object.
func TestListVerbose(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	command(t, s.at("list", "-v")...).want(t, 0, "nvme-subsys0     "+testNQN, "rdma   traddr="+s.addr+",trsvcid=4420", "nvme-subsys0 nvme0n1\n", "nvme0n1      ng0n1        0x1 ")
	o := command(t, s.at("list", "-v", "-o", "json", "-n", testNQN)...).want(t, 0, `"Path":"nvme0c0n1",`, `"ANAState":"optimized"`)
	if !json.Valid([]byte(o.out)) {
		t.Errorf("no JSON: %s", o.out)
	}
}

// TestAdvice checks that on a terminal a rejection is printed with advice.
func TestAdvice(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	for line, want := range map[string]string{
		"ns-descs --namespace-id 7":      "The controller shows this host the namespaces 1: choose one with --namespace-id.",
		"read --start-block 9999 -z 512": "Namespace 1 has 2048 blocks of 512 bytes, numbered from 0.",
		"get-log -i 7 -l 512":            "nvmeof supported-log-pages lists those that the controller supports.",
		"io-passthru -O 0x7e":            "nvmeof effects-log lists the commands that the controller supports.",
		"get-feature -f 3":               "",
	} {
		var plain *statusreport.Error
		if o := command(t, s.at1(line)...).want(t, exitFailed); !errors.As(o.err, &plain) || plain.Advice != want {
			t.Errorf("%s: %v advises %q", line, o.err, plain.Advice)
		}
	}
}

// TestVerbUsage checks the errors for mistakes on the command line.
func TestVerbUsage(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	for line, text := range map[string]string{
		"get-log -i 3":                      "log-len is required",
		"get-log -i 3 -l 6":                 "a multiple of 4",
		"get-feature -f 6 --sel 4":          "invalid 'select' param:4",
		"set-feature -V 4":                  "feature-id required",
		"get-property":                      "offset required param",
		"set-property -O 0x14":              "value required param",
		"dsm -d":                            "No range definition provided",
		"dsm --slbs 1,x -d":                 `--slbs: "x" is not a number`,
		"copy -d 5":                         "invalid range",
		"copy -d 5 --slbs 1 -b 70000":       `--blocks: "70000" is not a number from 0 to 65535`,
		"resv-register -r 9":                "invalid rrega:9",
		"resv-register -p 4":                "invalid cptpl:4",
		"smart-log -o yaml":                 "want one of binary, json, normal",
		"verify --namespace-id 9":           "no such namespace; the subsystem has: 1",
		"admin-passthru -O 6 -l 16 --write": "moves no data to the controller",
		"error-log -e 0":                    "at least one",
		"list-ns --namespace-id 0":          "invalid nsid parameter",
		"copy -d 5 --slbs 1 -b 1 -F 4":      "invalid format",
		"copy -d 5 --slbs 1 -b 1 -F 2":      "require source namespace ids",
		"copy -d 5 --slbs 1 -b 1 -N 1":      "do not support cross-namespace copy",
		"write-zeroes -T 16":                "Invalid directive type, 10",
		"verify -p 16":                      "--prinfo 16: 0 to 15",
		"id-ctrl --timeout 5x":              `"5x" is not a duration`,
	} {
		command(t, s.at1(line)...).want(t, exitUsage, text)
	}
	command(t, "check-dhchap-key").want(t, exitUsage, "Key not specified")
}

// TestCompare compares with the written data, and with one byte more.
func TestCompare(t *testing.T) {
	s := startTarget(t, "--export", "mem:16MiB", "--allow-any-host")
	data := make([]byte, 3<<20)
	rand.Read(data)
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	at := " --start-block 100 --block-count 6143 --data-size 3145728 --data " + file
	command(t, s.at1("write"+at)...).want(t, 0, "write: Success\n")
	command(t, s.at1("compare"+at+" --latency")...).want(t, 0, "compare: Success\n", " latency: compare: ")
	if o := command(t, s.at1("read --start-block 100 --block-count 6143 --data-size 3145728")...).want(t, 0); !bytes.Equal([]byte(o.out), data) {
		t.Error("what was written does not come back")
	}
	data[len(data)-1]++
	o := commandIn(t.Context(), t, data, s.at1("compare --start-block 100 --block-count 6143 --data-size 3145728")...)
	o.want(t, exitFailed)
	var report strings.Builder
	statusreport.Print(&report, o.err)
	if want := "NVMe status: Compare Failure: The command failed due to a miscompare during a Compare command(0x285)\n"; report.String() != want {
		t.Errorf("%q, want %q", report.String(), want)
	}
}

// TestSizeBeyondCount checks that the block count decides what is transferred, and that a warning with the remedy says
// what of --data-size that omits.
func TestSizeBeyondCount(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	data := bytes.Repeat([]byte("block"), 300)[:1024]
	for name, moved := range map[string]string{"write": "written", "compare": "compared", "read": "read"} {
		o := commandIn(t.Context(), t, data, s.at1(name+" --data-size 1024 --dry-run")...)
		o.want(t, 0, "warning: only 512 bytes of the --data-size 1024 are "+moved+": --block-count 0 is 1 × 512 bytes, since blocks count from 0; --block-count 1 moves all\n")
		o = commandIn(t.Context(), t, data, s.at1(name+" --data-size 1024 --block-count 1 --dry-run")...).want(t, 0)
		if strings.Contains(o.errOut, "warning") || strings.Contains(o.errOut, "Rounding") {
			t.Errorf("%s of as much as there are blocks: %s", name, o.errOut)
		}
	}
	commandIn(t.Context(), t, data, s.at1("write --data-size 1024")...).want(t, 0, "only 512 bytes", "write: Success\n")
	o := command(t, s.at1("read --block-count 1 --data-size 1024")...).want(t, 0)
	if want := string(data[:512]) + strings.Repeat("\x00", 512); o.out != want {
		t.Error("something other than the first block was written")
	}
}

// TestReservationCommands registers, acquires, releases and unregisters one host.
func TestReservationCommands(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	for _, c := range [][2]string{
		{"resv-register --nrkey 0xa1", "NVME Reservation  success\n"},
		{"resv-acquire --crkey 0xa1 --rtype 3", "NVME Reservation Acquire success\n"},
		{"resv-report -e", "regctlext[0] :\n  cntlid     : ffff\n  rcsts      : 1\n  rkey       : a1\n"},
		{"resv-release --crkey 0xa1 --rtype 3", "NVME Reservation Release success\n"},
		{"resv-register --crkey 0xa1 --rrega 1", "NVME Reservation  success\n"},
		{"resv-report -e -o json", `"regctl":0`},
	} {
		command(t, s.at1(c[0])...).want(t, 0, c[1])
	}
}

func TestHostNQNCommands(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const prefix = "nqn.2014-08.org.nvmexpress:uuid:"
	command(t, "gen-hostnqn").want(t, 0, prefix)
	shown := command(t, "show-hostnqn").want(t, 0, prefix)
	if again := command(t, "show-hostnqn"); again.out != shown.out {
		t.Errorf("the host is %q, then %q", shown.out, again.out)
	}
}

func TestCheckKey(t *testing.T) {
	const secret = "ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n"
	for key, want := range map[string]string{
		"DHHC-1:00:" + secret + ":": "Key is valid (HMAC 0, length 32, CRC a70d69fa)\n",
		"DHHC-1:01:" + secret + ":": "Key is valid (HMAC 1, length 32, CRC a70d69fa)\n",
	} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, given := range []string{key, "file:" + file} {
			if o := command(t, "check-dhchap-key", "-k", given).want(t, 0); o.out != want {
				t.Errorf("%s: %q, want %q", given, o.out, want)
			}
		}
	}
	for key, text := range map[string]string{
		"DHHC-1:02:" + secret + ":": "SHA-384", "DHHC-1:05:" + secret + ":": "hash other than", "xx": "not of the form", "file:/no/key": "no such file",
		"DHHC-1:00:" + secret[:47] + "m:": "checksum",
	} {
		command(t, "check-dhchap-key", "-k", key).want(t, exitFailed, text)
	}
}
