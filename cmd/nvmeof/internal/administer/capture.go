package administer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/internal/capture"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A limited holds the limits of a command that follows a target.
type limited struct{ count, seconds uint32 }

func (l *limited) add(cmd *cobra.Command, what string) {
	cmd.Flags().Uint32VarP(&l.count, "count", "c", 0, "end after this number of "+what+"; 0: when interrupted")
	cmd.Flags().Uint32Var(&l.seconds, "seconds", 0, "end after this number of seconds; 0: when interrupted")
}

// options returns the given options of the query that are not empty, and the limits.
func (l *limited) options(given ...string) (all []string) {
	for i := 0; i < len(given); i += 2 {
		if given[i+1] != "" {
			all = append(all, given[i]+"="+given[i+1])
		}
	}
	return append(all, fmt.Sprintf("count=%d", l.count), fmt.Sprintf("seconds=%d", l.seconds))
}

func newCapture() *cobra.Command {
	var r Remote
	var l limited
	var file, host, qpn, device string
	var snap uint32
	cmd := &cobra.Command{Use: "capture -w FILE", Short: "Capture the packets of a running target or host, for Wireshark", Args: cobra.NoArgs,
		Long: `Capture the RoCEv2 packets of a running target's softroce devices as pcapng, for
Wireshark and tshark. The first packet of each queue in each direction has a
comment with the names of host, subsystem and controller.

Packets contain the data that hosts read and write: by default the first 384 bytes
of each packet are kept, with -s 0 all of it. Authentication messages are captured
as on any network; they do not contain keys.

With --device the packets are those of a host, which nvmeof connect or connect-all
runs. The names of its connections are then at the beginning of the file.`,
		Example: "  nvmeof capture -w target.pcapng --seconds 10\n  nvmeof capture -w - --host NQN | tshark -r -",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return failure.Usagef("-w is missing: the file to write, or - for standard output")
			}
			if device != "" {
				if err := useHolder(cmd, device); err != nil {
					return err
				}
			}
			options := append(l.options("host", host, "qpn", qpn), fmt.Sprintf("snaplen=%d", snap))
			body, err := r.Stream(cmd.Context(), "/v1/capture", options)
			if err != nil {
				return err
			}
			defer body.Close()
			return whileTaken(cmd.Context(), func() error { return writeCapture(cmd, file, body) })
		}}
	cmd.Flags().StringVarP(&file, "write", "w", "", "file to write, or - for standard output (required)")
	cmd.Flags().StringVar(&host, "host", "", "only packets of the host with this NQN; of a new controller, those after its Connect command")
	cmd.Flags().StringVar(&device, "device", "", "packets of the host that holds this controller, as nvme0; not with --host")
	cmd.Flags().StringVar(&qpn, "qpn", "", "only packets of this queue pair of the target; 1 is connection management")
	cmd.Flags().Uint32VarP(&snap, "snaplen", "s", capture.DefaultSnap, "bytes to keep of each packet, from its IP header on; 0: all")
	l.add(cmd, "packets")
	r.AddSocket(cmd)
	_ = cmd.MarkFlagFilename("write", "pcapng")
	return cmd
}

// useHolder selects the control socket of the process that holds a device.
func useHolder(cmd *cobra.Command, device string) error {
	if cmd.Flags().Changed("socket") {
		return failure.Usagef("--device and --socket exclude each other: give a host or a target")
	}
	all, err := connections.All(cmd.Context(), connections.RunDir())
	for _, p := range all {
		for _, s := range p.Subsystems {
			if s.Has(device) {
				return cmd.Flags().Set("socket", p.Socket)
			}
		}
	}
	return errors.Join(fmt.Errorf("--device %s: nvmeof connect has no such device; see nvmeof list", device), err)
}

// guard makes a capture file unreadable for other users, even if it existed and was readable before.
func guard(f *os.File) error {
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		err = errors.Join(err, f.Close())
	}
	return err
}

// A whole is a file that contains only whole blocks, even after a write that failed partway.
type whole struct{ file *os.File }

func (w whole) Write(block []byte) (int, error) {
	n, err := w.file.Write(block)
	if err == nil || n == 0 {
		return n, err
	}
	if at, seek := w.file.Seek(-int64(n), io.SeekCurrent); seek == nil { // fails for a pipe, which keeps what it has
		err = errors.Join(err, w.file.Truncate(at))
	}
	return 0, err
}

// writeCapture writes a capture until it ends or the user ends it.
func writeCapture(cmd *cobra.Command, file string, from io.Reader) error {
	to, end := cmd.OutOrStdout(), func() error { return nil }
	if file != "-" {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NONBLOCK, 0o600) // without O_NONBLOCK the open of a FIFO would wait for its reader
		if errors.Is(err, syscall.ENXIO) {
			err = fmt.Errorf("%w: if it is a FIFO, start its reader first", err)
		}
		if err == nil {
			err = guard(f)
		}
		if err != nil {
			return err
		}
		to, end = whole{f}, f.Close
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof: capturing")
	sum, err := capture.Copy(to, from, func(comment string) { fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof:", nvmeof.Visible(comment)) })
	var write *capture.WriteError
	if errors.As(err, &write) {
		err = fmt.Errorf("%s: %w", file, write.Err)
	} else if cmd.Context().Err() != nil {
		err = nil // the user ended the capture
	}
	err = errors.Join(err, end())
	fmt.Fprintf(cmd.ErrOrStderr(), "nvmeof: %d packets captured, %d dropped by the target\n", sum.Packets, sum.Dropped)
	return err
}
