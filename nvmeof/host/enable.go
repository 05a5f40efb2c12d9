package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Entry sizes of CC, as exponents: 64 and 16 bytes (NVMe base 2.0, 3.1.3.5).
const (
	submissionEntry = 6
	completionEntry = 4
)

// enable enables the controller and waits until it is ready (NVMe base 2.0, 3.5.1).
func (c *Controller) enable(ctx context.Context) error {
	v, err := c.Properties().Get(ctx, capsule.PropertyCAP)
	if err != nil {
		return err
	}
	c.cap = capsule.CAP(v)
	f := c.cap.Fields()
	if f.MPSMIN > 0 {
		return refuse(fmt.Errorf("controller requires memory pages of at least %d bytes, this host has 4096", 4096<<f.MPSMIN))
	}
	cc := capsule.CC(0).WithEntrySizes(submissionEntry, completionEntry).WithEnable(true)
	switch {
	case f.CSS&capsule.CSSMany != 0:
		// As other hosts do. Otherwise CSI is reserved, and pages of a command set are those of the NVM command set. A
		// namespace of another command set is refused because of its identification descriptor.
		cc = cc.WithCSS(capsule.CCCSSAll)
	case f.CSS&capsule.CSSNVM != 0:
		cc = cc.WithCSS(capsule.CCCSSNVM)
	default:
		cc = cc.WithCSS(capsule.CCCSSAdmin)
	}
	if err := c.Properties().Set(ctx, capsule.PropertyCC, uint64(cc)); err != nil {
		return err
	}
	// CAP.TO is the worst time in units of 500 ms.
	limit := time.Duration(max(1, f.TO)) * 500 * time.Millisecond
	err = c.waitStatus(ctx, limit, func(s capsule.CSTS) bool { return s.Ready() })
	if err != nil {
		return err
	}
	v, err = c.Properties().Get(ctx, capsule.PropertyVS)
	c.version = capsule.Version(v)
	return err
}

// enableRetryDelays enables Advanced Command Retry (ACRE, NVMe base 2.0, 5.27.1.18) if the controller has Command Retry
// Delay Times. Only then does the controller say in a command's status how long to wait before a retry. If it refuses
// the feature, it states no delays.
func (c *Controller) enableRetryDelays(ctx context.Context) error {
	if c.identify.CRDT1 == 0 {
		return nil
	}
	err := c.Features().SetHostBehavior(ctx, capsule.HostBehavior{ACRE: true})
	if errors.As(err, new(*StatusError)) {
		return nil
	}
	return err
}

// waitStatus polls CSTS until want returns true.
func (c *Controller) waitStatus(ctx context.Context, limit time.Duration, want func(capsule.CSTS) bool) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		v, err := c.Properties().Get(ctx, capsule.PropertyCSTS)
		if err != nil {
			return err
		}
		status := capsule.CSTS(v)
		if want(status) {
			return nil
		}
		if status.Fatal() {
			return errors.New("controller reports a fatal error (CSTS.CFS)")
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-deadline.C:
			next.Stop()
			return fmt.Errorf("controller is not ready after %v (CSTS %#x)", limit, uint32(status))
		case <-ctx.Done():
			next.Stop()
			return ctx.Err()
		}
	}
}
