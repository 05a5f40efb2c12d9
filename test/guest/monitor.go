package guest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// monitorLimit is many times what QEMU takes for a command.
const monitorLimit = 30 * time.Second

// A monitor sends commands to QEMU by its machine protocol (QMP).
type monitor struct {
	conn    net.Conn
	replies *json.Decoder
}

// newMonitor returns a monitor, and QEMU's end of its socket.
func newMonitor() (*monitor, *os.File, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "monitor"), os.NewFile(uintptr(ends[1]), "monitor")
	defer ours.Close() // the connection has a descriptor of its own
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return &monitor{conn, json.NewDecoder(conn)}, theirs, nil
}

// arguments are those of a command; nil means none.
type arguments map[string]any

// do sends a command and stores the value that it returns in result, unless that is nil. It skips other messages of
// QEMU: the greeting and events.
func (m *monitor) do(command string, args arguments, result any) error {
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	err := m.conn.SetDeadline(time.Now().Add(monitorLimit))
	if err == nil {
		err = json.NewEncoder(m.conn).Encode(request)
	}
	for err == nil {
		var reply struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		err = m.replies.Decode(&reply)
		switch {
		case err != nil:
		case reply.Error != nil:
			return fmt.Errorf("QEMU refuses %s: %s", command, reply.Error.Desc)
		case reply.Return != nil && result != nil:
			return json.Unmarshal(reply.Return, result)
		case reply.Return != nil:
			return nil
		}
	}
	return fmt.Errorf("QEMU's monitor: %s: %w", command, err)
}
