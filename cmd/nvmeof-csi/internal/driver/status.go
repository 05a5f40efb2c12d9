package driver

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/fabric"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// codesOf maps the errors of package volumes to codes.
var codesOf = []struct {
	err  error
	code codes.Code
}{
	{volumes.ErrNotFound, codes.NotFound}, {volumes.ErrDiffers, codes.AlreadyExists}, {volumes.ErrAccess, codes.AlreadyExists},
	{volumes.ErrSize, codes.OutOfRange}, {volumes.ErrFixed, codes.OutOfRange}, {volumes.ErrFull, codes.ResourceExhausted}, {volumes.ErrInUse, codes.FailedPrecondition}, {volumes.ErrTarget, codes.FailedPrecondition},
	{fabric.ErrOffline, codes.FailedPrecondition}, {fabric.ErrGone, codes.Unavailable}, {volumes.ErrStale, codes.Unavailable}, {volumes.ErrUnknown, codes.Unimplemented}, {volumes.ErrRequest, codes.InvalidArgument}, {context.DeadlineExceeded, codes.DeadlineExceeded}, {context.Canceled, codes.Canceled},
}

// apiCodes maps the errors of the control API to codes.
var apiCodes = map[control.Code]codes.Code{
	control.CodeInvalid: codes.InvalidArgument, control.CodeNotFound: codes.NotFound, control.CodeExists: codes.Aborted,
	control.CodeInUse: codes.FailedPrecondition, control.CodeForbidden: codes.PermissionDenied, control.CodeLoss: codes.FailedPrecondition,
	control.CodeNotEmpty: codes.AlreadyExists, control.CodeUnsaved: codes.Unavailable, control.CodeFailed: codes.Internal, control.CodeRestart: codes.FailedPrecondition,
}

// statusOf returns the status for an error.
func statusOf(err error) *status.Status {
	if s, is := status.FromError(err); is {
		return s
	}
	for _, c := range codesOf {
		if errors.Is(err, c.err) {
			return status.New(c.code, err.Error())
		}
	}
	var api *control.Error
	switch {
	case errors.As(err, new(*control.ConnectError)):
		return status.New(codes.Unavailable, err.Error())
	case errors.As(err, &api) && strings.Contains(api.Message, syscall.ENOSPC.Error()):
		return status.New(codes.ResourceExhausted, err.Error())
	case errors.As(err, &api):
		return status.New(apiCodes[api.Code], err.Error())
	}
	return status.New(codes.Internal, err.Error())
}
