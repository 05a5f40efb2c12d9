package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/udp"
)

// A lent controller is held by another process, which is the RoCE endpoint of this
// host's address.
type lent struct {
	owner *connections.Process
	name  string
}

// connectAnyhow connects, or lets who can.
func (k *keeper) connectAnyhow(ctx context.Context, h *held, options map[string]string) (string, error) {
	name, err := k.connect(ctx, h)
	var inUse *udp.InUseError
	if errors.As(err, &inUse) {
		return k.connectBy(ctx, inUse, options)
	}
	return name, err
}

// connectBy lets the owner of an address connect.
func (k *keeper) connectBy(ctx context.Context, inUse *udp.InUseError, options map[string]string) (string, error) {
	owner, err := ownerOf(ctx, inUse)
	if err != nil {
		return "", err
	}
	name, err := owner.Connect(ctx, options)
	if err != nil {
		return "", fmt.Errorf("process %d, which is the RoCE endpoint of %v, does not connect: %w", owner.PID, inUse.Addr, err)
	}
	fmt.Fprintf(k.warn, "nvmeof: %s: held by process %d, which is the RoCE endpoint of %v\n", name, owner.PID, inUse.Addr)
	k.lent = append(k.lent, lent{owner, name})
	return name, nil
}

// wait returns when ctx ends, or when nothing is connected any more: then why, if that
// was by nobody's wish.
func (k *keeper) wait(ctx context.Context) error {
	idle := k.holder.Idle()
	if len(k.holder.Info().Subsystems) == 0 {
		closed := make(chan struct{})
		close(closed)
		idle = closed
	}
	var lost error
	for len(k.lent) > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAtOwner):
		}
		k.lent = slices.DeleteFunc(k.lent, func(l lent) bool {
			now, err := l.owner.Info(ctx)
			switch {
			case ctx.Err() != nil:
				return false
			case err != nil:
				lost = fmt.Errorf("%s: %w", l.name, errOwnerEnded)
			case now.Lost[l.name] != "":
				lost = fmt.Errorf("%s: %s", l.name, now.Lost[l.name])
			case has(&now, l.name):
				return false
			}
			return true
		})
	}
	select {
	case <-ctx.Done():
		return nil
	case <-idle:
		return errors.Join(k.holder.Lost(), lost)
	}
}

// giveBack disconnects what others hold for us.
func (k *keeper) giveBack() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveOwner)
	defer cancel()
	var errs []error
	for _, l := range k.lent {
		_, err := l.owner.Disconnect(ctx, "", l.name, "")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
