package hosts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// isStranger returns whether a target refused this host because it does not allow it.
func isStranger(err error) bool {
	var status *host.StatusError
	return errors.As(err, &status) && status.Status.Code() == capsule.StatusConnectInvalidHost && !status.ObjectsToIdentifier()
}

// Explain says what a refused connection means for its user.
func Explain(ctx context.Context, err error, id nvmeof.HostIdentity) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isStranger(err) {
		err = fmt.Errorf("%w\nThis host is %s; on a target of ours: --allow-host %s", err, id.NQN, id.NQN)
	}
	var use failure.Usage
	if errors.As(err, &use) {
		return err
	}
	return &failure.Connect{Err: err}
}

// Effective describes the timeouts of a connection.
func Effective(name string, p *connections.Path) string {
	kato, fast := "off", "with that"
	switch k := p.Options.KeepAliveTmo; {
	case k == 0:
		kato = nvmeof.DefaultKeepAlive.String()
	case k > 0:
		kato = k.String()
	}
	if f := p.Timers.FastIOFailTmo; f >= 0 {
		fast = "after " + f.String()
	}
	loss := "never given up"
	if l := p.Timers.CtrlLossTmo; l >= 0 {
		loss = "given up after " + l.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%s: keep alive timeout %s; when lost, connected to again at intervals of at most %v, %s; requests fail %s",
		name, kato, p.Timers.ReconnectDelay, loss, fast)
}
