package nvmeverb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
)

// passthru holds the flags of nvme admin-passthru and io-passthru.
type passthru struct {
	admin         bool
	opcode        uint8
	prefill       uint8
	length        uint32
	cdw           [16]uint32 // dwords 2, 3 and 10 to 15
	file          string
	show, dry     bool
	receive, send bool
	latency       bool
}

func newAdminPassthru(to Connection) *cobra.Command {
	return newPassthru(to, &passthru{admin: true}, "admin-passthru", "Send any command to the admin queue")
}

func newIOPassthru(to Connection) *cobra.Command {
	return newPassthru(to, &passthru{}, "io-passthru", "Send any command to an I/O queue")
}

func newPassthru(to Connection, p *passthru, name, short string) *cobra.Command {
	v := verb{Connection: to}
	return newVerb(name, short, canRaw, &v, func(f *pflag.FlagSet) {
		v.namespaceFlag(f, 0, "desired namespace")
		p.add(f)
	}, p.run)
}

func (p *passthru) add(f *pflag.FlagSet) {
	f.Uint8VarP(&p.opcode, "opcode", "O", 0, "opcode (required)")
	f.Uint8VarP(&p.prefill, "prefill", "p", 0, "prefill buffers with known byte-value")
	f.Uint32VarP(&p.length, "data-len", "l", 0, "data I/O length (bytes)")
	for _, n := range []int{2, 3, 10, 11, 12, 13, 14, 15} {
		letter := map[int]string{2: "2", 3: "3"}[n]
		if n >= 10 {
			letter = fmt.Sprint(n - 6)
		}
		f.Uint32VarP(&p.cdw[n], fmt.Sprintf("cdw%d", n), letter, 0, fmt.Sprintf("command dword %d value", n))
	}
	f.StringVarP(&p.file, "input-file", "i", "", "data input or output file")
	f.BoolVar(&p.show, "show-command", false, "print command before sending")
	f.BoolVarP(&p.dry, "dry-run", "d", false, "show command instead of sending")
	f.BoolVarP(&p.receive, "read", "r", false, "set dataflow direction to receive")
	f.BoolVarP(&p.latency, "latency", "T", false, "output latency statistics")
	f.BoolVar(&p.send, "write", false, "set dataflow direction to send")
}

func (p *passthru) run(ctx context.Context, c *call) error {
	cmd := capsule.Command{
		Opcode: capsule.Opcode(p.opcode), NSID: c.id(), CDW2: p.cdw[2], CDW3: p.cdw[3],
		CDW10: p.cdw[10], CDW11: p.cdw[11], CDW12: p.cdw[12], CDW13: p.cdw[13], CDW14: p.cdw[14], CDW15: p.cdw[15],
	}
	if err := p.judge(&cmd); err != nil {
		return err
	}
	data := bytes.Repeat([]byte{p.prefill}, int(p.length))
	if p.send {
		if err := p.load(ctx, c.in, data); err != nil {
			return err
		}
	}
	if p.show || p.dry {
		if err := c.Passthru(&cmd, len(data), c.verb.milliseconds()); err != nil || p.dry {
			return err
		}
	}
	start, queue := time.Now(), choose(p.admin, "Admin", "IO")
	done, err := p.transmit(ctx, c, cmd, data)
	if p.latency {
		fmt.Fprintf(c.W, "%s Command %s latency: %d us\n", queue, p.name(), time.Since(start).Microseconds())
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.warn, "%s Command %s is Success and result: 0x%08x\n", queue, p.name(), done.DW0())
	return p.store(c, data)
}

// judge rejects flags that do not match the direction of the command's data, and excessive lengths.
func (p *passthru) judge(cmd *capsule.Command) error {
	direction := capsule.Direction(cmd.Opcode & 3)
	switch {
	case p.length > maxLogLength:
		return failure.Usagef("--data-len %d: %d bytes at most", p.length, maxLogLength)
	case p.send && p.receive:
		return failure.Usagef("--read and --write exclude each other")
	case p.length == 0:
	case p.send && direction != capsule.HostToController:
		return failure.Usagef("--write: opcode %#02x moves no data to the controller", p.opcode)
	case p.receive && direction != capsule.ControllerToHost:
		return failure.Usagef("--read: opcode %#02x moves no data to the host", p.opcode)
	}
	return nil
}

func (p *passthru) load(ctx context.Context, in io.Reader, data []byte) error {
	if _, err := namedfile.Fill(ctx, p.file, in, data); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("no data to send: %w; give a file with --input-file", err)
	}
	return nil
}

// transmit sends the command to its queue. It identifies the namespace of an I/O command first, because a target may
// hold commands until the host has done so. If that fails, it sends the command all the same, so that the controller
// decides.
func (p *passthru) transmit(ctx context.Context, c *call, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	if p.admin {
		return c.Admin(ctx, cmd, data)
	}
	if cmd.NSID != 0 {
		if ns, err := c.Namespace(ctx, cmd.NSID); err == nil {
			return ns.Execute(ctx, cmd, data)
		}
	}
	id, err := ChooseNamespace(ctx, c.Controller, 0)
	if err != nil {
		return capsule.Completion{}, err
	}
	ns, err := c.Namespace(ctx, id)
	if err != nil {
		return capsule.Completion{}, err
	}
	return ns.Execute(ctx, cmd, data)
}

func (p *passthru) name() string {
	const other = "Vendor Specific"
	if p.admin {
		return nvmecli.AdminName(capsule.AdminOpcode(p.opcode), other)
	}
	return nvmecli.IOName(capsule.IOOpcode(p.opcode), other)
}

// store saves or prints the data received.
func (p *passthru) store(c *call, data []byte) error {
	switch {
	case len(data) == 0 || p.send:
		return nil
	case p.file != "":
		return os.WriteFile(p.file, data, 0o664)
	case c.raw:
		return c.write(data)
	}
	return c.Dump(data)
}

func choose(on bool, yes, no string) string {
	if on {
		return yes
	}
	return no
}
