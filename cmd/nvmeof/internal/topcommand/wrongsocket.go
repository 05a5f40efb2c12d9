package topcommand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// silence is how long to wait for a server that speaks first.
const silence = time.Second

// explain says what a socket without counters is: that of a host, or of a target of another version.
func explain(ctx context.Context, socket string, err error) error {
	var refused *control.Error
	var lost *control.ConnectError
	switch {
	case errors.As(err, &refused) && refused.Code == control.CodeNotFound:
		return fmt.Errorf("the target at %s runs an earlier version, which has no counters to show: restart it with this version", socket)
	case refused != nil && alive(ctx, socket):
		return hostError(socket, "a process of nvmeof connect")
	case errors.As(err, &lost) && speaksNBD(ctx, socket):
		return hostError(socket, "a disk of nvmeof attach or connect")
	}
	return err
}

func hostError(socket, what string) error {
	return fmt.Errorf("%s is %s, which is a host: top shows targets; nvmeof list-subsys shows what hosts are connected to, and nvmeof ls finds the targets of this machine", socket, what)
}

// alive reports whether a process that holds connections answers at the socket.
func alive(ctx context.Context, socket string) bool {
	c := control.NewClient(socket)
	defer c.Close()
	return c.Do(ctx, "GET", "/v1/alive", nil, nil, nil) == nil
}

// speaksNBD reports whether an NBD server answers at the socket.
func speaksNBD(ctx context.Context, socket string) bool {
	c, err := (&net.Dialer{Timeout: silence}).DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(silence))
	greeting := make([]byte, 8)
	_, err = io.ReadFull(c, greeting)
	return err == nil && bytes.Equal(greeting, []byte("NBDMAGIC"))
}
