package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/bench"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// Exit codes, which `nvmeof help` explains.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitConnection  = 3
	exitWrongData   = 4
	exitInterrupted = 130
)

const exitCodeHelp = `Exit codes: 0 done; 1 the controller, the target or this machine refused; 2 wrong use;
3 no connection; 4 wrong data was read; 130 interrupted.`

// Errors with an exit code of their own.
type (
	usageError   = failure.Usage
	connectError = failure.Connect
	wrongError   = failure.WrongData
)

func usage(format string, args ...any) error { return failure.Usagef(format, args...) }

// exitCode is what the process ends with.
func exitCode(err error) int {
	var connect *connectError
	var verify *bench.VerifyError
	var wrong *wrongError
	var use usageError
	var job *bench.JobError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &use), errors.As(err, &job):
		return exitUsage
	case errors.As(err, &verify), errors.As(err, &wrong):
		return exitWrongData
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &connect):
		return exitConnection
	}
	return exitFailed
}

// refused explains a connection that failed: who refused, why, and what to do.
func (s *session) refused(ctx context.Context, err error, nqn nvmeof.NQN) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var status *host.StatusError
	if !errors.As(err, &status) {
		return &connectError{Err: err}
	}
	if isStranger(err) {
		return &connectError{Err: fmt.Errorf("%w\nThis host is %s; on a target of ours: --allow-host %s", err, s.identity.NQN, s.identity.NQN)}
	}
	if status.Status.Code() == capsule.StatusConnectInvalidParam {
		p := capsule.ParseInvalidParameter(status.Result)
		if p.In == capsule.InvalidInData && p.Offset == capsule.ConnectOffsetSubNQN {
			return &connectError{Err: fmt.Errorf("%w%s", err, s.suggest(ctx, nqn))}
		}
	}
	return &connectError{Err: err}
}

// isStranger returns whether a target refused this host because it does not allow it.
func isStranger(err error) bool {
	var status *host.StatusError
	return errors.As(err, &status) && status.Status.Code() == capsule.StatusConnectInvalidHost && !status.ObjectsToIdentifier()
}

// suggest names subsystems that do exist where the wanted one does not.
func (s *session) suggest(ctx context.Context, wanted nvmeof.NQN) string {
	o, err := s.flags.options(s.addr, "")
	if err != nil {
		return ""
	}
	log, err := s.host.Discover(ctx, o)
	if err != nil {
		return ""
	}
	var names []string
	for i := range log.Entries {
		if e := &log.Entries[i]; e.SUBTYPE == capsule.SubsystemNVM {
			names = append(names, nvmeof.Printable(capsule.Text(e.SubNQN[:])))
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("\nThat target shows no subsystem to this host, which is %s: is it allowed there?", s.identity.NQN)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if near := nvmeof.Nearest(string(wanted), names); near != "" {
		return "\nDid you mean " + near + "?"
	}
	return "\nThere is: " + strings.Join(names, ", ")
}
