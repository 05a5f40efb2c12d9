package volumes

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// probeTime is how long a target may take to answer. The probes of Kubernetes wait for 10 s (--probe-timeout in
// deploy/kubernetes/driver.yaml).
const probeTime = 8 * time.Second

// Probe returns nil as soon as a target answers. If none does, it returns the errors of all. It calls each, which must
// be safe for concurrent use, with the result of each target, also after it has returned.
func (s *Set) Probe(ctx context.Context, each func(target string, err error)) error {
	results := make(chan error, len(s.targets))
	for _, t := range s.targets {
		go func() { // ends within probeTime
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
			defer cancel()
			_, err := t.status(ctx)
			each(t.Name, err)
			if err != nil {
				err = fmt.Errorf("target %s: %w", t.Name, err)
			}
			results <- err
		}()
	}
	var all []error
	for range s.targets {
		select {
		case err := <-results:
			if err == nil {
				return nil
			}
			all = append(all, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(all...)
}
