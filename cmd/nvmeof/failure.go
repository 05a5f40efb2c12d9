package main

import (
	"context"
	"errors"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// Exit codes, which `nvmeof help` explains.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitConnection  = 3
	exitWrongData   = 4
	exitInterrupted = 130
)

const exitCodeHelp = `Exit codes: 0 success; 1 the controller, the target or this machine refused;
2 wrong usage; 3 no connection; 4 wrong data was read; 130 interrupted.`

// Errors with an exit code of their own.
type (
	usageError   = failure.Usage
	connectError = failure.Connect
	wrongError   = failure.WrongData
)

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var connect *connectError
	var verify *bench.VerifyError
	var wrong *wrongError
	var use usageError
	var job *bench.JobError
	var said *failure.Said
	switch {
	case err == nil:
		return 0
	case errors.As(err, &said):
		return said.Code
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
