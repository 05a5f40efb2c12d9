package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestNVMeCLI: our program's commands print, byte for byte, what nvme-cli's commands of the same names print about the
// same target, and end with the same status.
func TestNVMeCLI(t *testing.T) {
	needGuest(t)
	if *peer != peerSoftroce {
		t.Skip("our program needs an address of its own beside the target's: run without -peer")
	}
	l := newLab(t)
	l.link(t, 9000)
	l.second = "size=64MiB,bs=4096,thin"
	s := setting{"memory", 9000, "ipv4"}
	l.startTarget(t, s)
	e := s.env()
	l.onHost(t, time.Minute, "connect", e.with(env{"queues": 2}))
	l.onHost(t, 15*time.Minute, "nvmecli", e.with(env{"cases": strings.Join(nvmeCLICases, "\n")}))
	for i, c := range nvmeCLICases {
		t.Run(c, func(t *testing.T) {
			for _, part := range []string{"out", "err", "rc"} {
				if part != "rc" || c != allFeatures {
					l.compareAnswers(t, i, part)
				}
			}
		})
	}
	l.onHost(t, time.Minute, "foreground", env{"command": "nvme disconnect -n " + targetNQN})
}

// allFeatures ends with status 1 in nvme-cli, as the last identifier that it tries is not of a feature. Our program
// ends with 0 if it has read all features.
const allFeatures = "c get-feature --sel=1 --cdw11=1"

// moving matches what differs between two controllers of two hosts: their identifiers, how many errors each has had,
// and the command set that each host selected.
var moving = regexp.MustCompile(`(\bcntlid\s+: |"cntlid":|num_err_log_entries\s+: |"num_err_log_entries":|\bcc +: |"cc":|I/O Command Set Selected +\(CSS\): )[^,\n]+`)

func (l *lab) compareAnswers(t *testing.T, i int, part string) {
	t.Helper()
	read := func(who string) string {
		b, err := os.ReadFile(filepath.Join(l.hostDir, "nvmecli", fmt.Sprintf("%d.%s.%s", i, who, part)))
		if err != nil {
			t.Fatal(err)
		}
		return moving.ReplaceAllString(string(b), "$1*")
	}
	want, got := strings.SplitAfter(read("nvme"), "\n"), strings.SplitAfter(read("ours"), "\n")
	for line := range max(len(want), len(got)) {
		if g, w := nthLine(got, line), nthLine(want, line); g != w {
			t.Errorf("%s, line %d: %q, nvme-cli has %q", part, line+1, g, w)
			return
		}
	}
}

func nthLine(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}

// nvmeCLICases are commands with options that mean the same to both programs. Options are long if our program uses the
// letter for the connection.
var nvmeCLICases = []string{
	"c id-ctrl", "c id-ctrl -o json", "c id-ns --namespace-id=1", "c id-ns --namespace-id=2 -o json",
	"c list-ns", "c list-ns -o json", "c list-ns --namespace-id=2", "c list-ns --all",
	"c ns-descs --namespace-id=1", "c ns-descs --namespace-id=2 -o json", "c ns-descs --namespace-id=3", "c ns-descs --namespace-id=3 -o json",
	"c nvm-id-ns --namespace-id=2", "c nvm-id-ns --namespace-id=1 -o json", "c nvm-id-ctrl", "c nvm-id-ctrl -o json",
	"c cmdset-ind-id-ns --namespace-id=1 -H", "c cmdset-ind-id-ns --namespace-id=2 -o json",

	"c smart-log", "c smart-log -H", "c smart-log -o json", "c smart-log --namespace-id=1", "c smart-log -o json -H",
	"c ana-log", "c ana-log -o json", "c ana-log --groups", "c ana-log --groups -o json",
	"c effects-log", "c effects-log -H", "c effects-log -o json", "c effects-log --csi=0",
	"c fw-log", "c fw-log -o json", "c fw-log -b", "c supported-log-pages", "c supported-log-pages -o json",
	"c changed-ns-list-log", "c changed-ns-list-log -o json", "c resv-notif-log", "c resv-notif-log -o json",
	"c fid-support-effects-log", "c fid-support-effects-log -H", "c fid-support-effects-log -o json", "c mi-cmd-support-effects-log", "c mi-cmd-support-effects-log -o json",
	"c get-log --log-id=3 --log-len=64", "c get-log --log-id=3 --log-len=20 -b", "c get-log --log-id=0x12 --log-len=1024",
	"c get-log --log-id=7 --log-len=512", "c get-log --log-id=7 --log-len=512 -o json",

	"c show-regs", "c show-regs -H", "c show-regs -o json",
	"c get-property --offset=0", "c get-property --offset=0 -H", "c get-property --offset=8 -o json", "c get-property --offset=0x1c -H -o json",
	"c get-property --offset=8 -H", "c get-property --offset=0x68 -H", "c get-property --offset=0x20", "c get-property --offset=0x20 -H", "c get-property --offset=0x20 -o json", "c get-property --offset=0x28",

	allFeatures, "c get-feature --feature-id=7", "c get-feature --feature-id=7 -H", "c get-feature --feature-id=0x0f -H", "c get-feature --feature-id=4 -H",
	"c get-feature --feature-id=4 -o json", "c get-feature --feature-id=6 --sel=3", "c get-feature --feature-id=0x84 --namespace-id=1 -H",
	"c get-feature --feature-id=0x82 --namespace-id=1 -o json", "c get-feature --feature-id=0x0b --sel=1 -H", "c get-feature --feature-id=0x0e --sel=1 -H",
	"c get-feature --feature-id=0x81 --cdw11=1", "c get-feature --feature-id=0x81 --cdw11=1 -o json", "c get-feature --feature-id=0x16", "c get-feature --feature-id=0x16 -H",
	"c get-feature --feature-id=3", "c get-feature --feature-id=3 -o json",
	"c set-feature --feature-id=4 --value=299", "c set-feature --feature-id=4 --value=353 -o json", "c set-feature --feature-id=6 --value=0",
	"c set-feature --feature-id=6 --value=1 --save", "c set-feature --feature-id=6 --value=0 -o json",
	"c set-feature --feature-id=6 --value=1", // the kernel's controller is the same for all commands

	"n write-zeroes --start-block=1024 --block-count=63", "n write-zeroes --start-block=99999999", "n verify --start-block=1024 --block-count=63", "n verify --start-block=99999999 -o json",
	"n dsm --slbs=0,100 --blocks=8,8 --ad", "n copy --sdlba=200 --slbs=0,16 --blocks=7,7", "n flush",
	"n write --start-block=0 --block-count=7 --data-size=4096 --data=data", "n read --start-block=0 --block-count=7 --data-size=4096",
	"n compare --start-block=0 --block-count=7 --data-size=4096 --data=data", "n compare --start-block=1 --block-count=7 --data-size=4096 --data=data",
	"n resv-report --eds", "n resv-report -o json", "n resv-register --nrkey=0xa1 --rrega=0", "n resv-acquire --crkey=0xa1 --rtype=1 --racqa=0",
	"n resv-report --eds -o json", "n resv-report", "n resv-acquire --crkey=0xb2 --rtype=1 --racqa=0",
	"n resv-release --crkey=0xa1 --rtype=1 --rrela=0", "n resv-register --crkey=0xb2 --rrega=1", "n resv-register --crkey=0xb2 --rrega=1 -o json",

	"c admin-passthru --opcode=6 --data-len=4096 --read --cdw10=2", "c admin-passthru --opcode=0x0a --cdw10=6", "c admin-passthru --opcode=0xc0", "c admin-passthru --opcode=0xc0 -o json",
	"n io-passthru --opcode=2 --namespace-id=1 --data-len=512 --read", "n io-passthru --opcode=0x7e --namespace-id=1", "n io-passthru --opcode=0 --namespace-id=1 --show-command",

	"c id-ctrl -H", "c id-ctrl -v", "c id-ctrl -v -o json", "c id-ctrl -V", "n id-ns -H", "n id-ns --namespace-id=2 -v", "n id-ns -V", "n id-ns --namespace-id=2 --force", "n id-ns -b",
	"c list-ns -v", "c ns-descs --namespace-id=1 -v", "n nvm-id-ns -v", "c nvm-id-ctrl -v", "c nvm-id-ctrl -v -o json", "n cmdset-ind-id-ns -v", "c supported-log-pages -v",
	"c smart-log -v", "c smart-log -v -o json", "c fid-support-effects-log -v", "c mi-cmd-support-effects-log -v", "c get-property --offset=0x1c -v", "c ana-log -v",
	"c get-feature --feature-id=4 -v", "c get-feature --feature-id=4 -C", "c get-feature --feature-id=4 --changed -o json", "c get-feature --feature-id=7 -C -H",
	"n flush -o json", "n flush -v", "c id-ctrl --timeout=5000", "n read --start-block=99999999 --block-count=0 --data-size=512", "n read --start-block=99999999 --block-count=0 --data-size=512 -o json",
	"n write --start-block=99999999 --block-count=7 --data-size=4096 --data=data", "n write --start-block=0 -c 7 -z 4096 -d data -f -l -p 0", "n read --start-block=0 -c 7 -z 4096 --limited-retry",
	"n compare --start-block=99999999 -c 7 -z 4096 --data=data", "n write-zeroes --start-block=8 -c 7 -l -f -d", "n verify --start-block=8 -c 7 --limited-retry -f",
	"n copy --sdlba=200 --slbs=0,16 --blocks=7,7 --format=1", "n copy --sdlba=200 --slbs=0 --blocks=7 --format=2 --snsids=1", "n copy --sdlba=200 --slbs=0 --blocks=7 --format=0 -l -f",
	"n copy --sdlba=99999999 --slbs=0 --blocks=7", "c admin-passthru --opcode=6 --namespace-id=1 --data-len=4096 --read --cdw10=0 -b --timeout=5000",

	"- check-dhchap-key --key=DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
}
