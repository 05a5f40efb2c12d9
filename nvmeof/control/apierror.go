package control

import (
	"errors"
	"net/http"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// Code is the kind of an API error.
type Code string

const (
	CodeInvalid   Code = "invalid"   // the request is not valid
	CodeNotFound  Code = "not-found" // it names an object that does not exist
	CodeExists    Code = "exists"    // it names an object that exists already
	CodeRestart   Code = "restart"   // it cannot be done while the target runs
	CodeFailed    Code = "failed"    // the machine, or the state of the target, does not allow it
	CodeLoss      Code = "loss"      // it destroys data or the protection of data, and needs force
	CodeInUse     Code = "in-use"    // it removes what connected hosts use, and needs force
	CodeNotEmpty  Code = "not-empty" // a store that was to be empty has data
	CodeUnsaved   Code = "unsaved"   // the target is changed, but its file is not
	CodeForbidden Code = "forbidden" // the sender's role does not permit it
)

// An Error is the API's answer to a request that failed. Message is the sentence that the command
// line prints. Plan is the plan of a dry run that was refused.
type Error struct {
	Code    Code    `json:"code"`
	Message string  `json:"message"`
	Plan    *Result `json:"plan,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// errorBody is the JSON form of an error.
type errorBody struct {
	Error Error `json:"error"`
}

// A plannedError is the error of a dry run, with the plan of the refused change.
type plannedError struct {
	plan Result
	err  error
}

func (e *plannedError) Error() string { return e.err.Error() }
func (e *plannedError) Unwrap() error { return e.err }

// classify returns the code of an error and its HTTP status.
func classify(err error) (Code, int) {
	var problems config.Problems
	var step *StepError
	var restart *RestartError
	var loss *LossError
	var missing *NotFoundError
	var exists *ExistsError
	var save *SaveError
	var state *target.StateError
	var unread *unreadError
	switch {
	case errors.As(err, new(*ForbiddenError)):
		return CodeForbidden, http.StatusForbidden
	case errors.As(err, &save) && save.Changed:
		return CodeUnsaved, http.StatusInternalServerError
	case errors.As(err, &save): // a problem of the file, not of the request
		return CodeFailed, http.StatusConflict
	case errors.As(err, &step), errors.As(err, &state), errors.As(err, &unread), errors.As(err, new(*busyError)):
		return CodeFailed, http.StatusConflict
	case errors.As(err, &problems):
		return CodeInvalid, http.StatusBadRequest
	case errors.As(err, &restart):
		return CodeRestart, http.StatusConflict
	case errors.As(err, &loss), errors.As(err, new(*ConnectedError)):
		return CodeLoss, http.StatusConflict
	case errors.As(err, new(*ConflictError)):
		return CodeFailed, http.StatusConflict
	case errors.As(err, new(*GroupError)), errors.As(err, new(*OrderError)), errors.As(err, new(*pendingError)):
		return CodeFailed, http.StatusServiceUnavailable
	case errors.As(err, new(*InUseError)), errors.As(err, new(*GrantedError)), errors.As(err, new(*AloneError)):
		return CodeInUse, http.StatusConflict
	case errors.As(err, new(*NotEmptyError)):
		return CodeNotEmpty, http.StatusConflict
	case errors.As(err, &missing):
		return CodeNotFound, http.StatusNotFound
	case errors.As(err, &exists), errors.As(err, new(*ErasingError)):
		return CodeExists, http.StatusConflict
	case errors.Is(err, ErrClosed), errors.Is(err, errFollowers), errors.Is(err, errUnheard):
		return CodeFailed, http.StatusServiceUnavailable
	}
	return CodeFailed, http.StatusInternalServerError
}

// writeError writes the answer for an error, and returns its HTTP status.
func writeError(w http.ResponseWriter, err error) int {
	code, status := classify(err)
	body := errorBody{Error{Code: code, Message: err.Error()}}
	var planned *plannedError
	if errors.As(err, &planned) {
		body.Error.Plan = &planned.plan
	}
	writeJSON(w, status, config.JSON(body))
	return status
}
