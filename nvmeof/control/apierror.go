package control

import (
	"errors"
	"net/http"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// Code says what kind of error the API met.
type Code string

const (
	CodeInvalid   Code = "invalid"   // the request makes no sense
	CodeNotFound  Code = "not-found" // it names something that is not there
	CodeExists    Code = "exists"    // it names something that is there already
	CodeRestart   Code = "restart"   // it cannot be done while the target runs
	CodeFailed    Code = "failed"    // this machine refused
	CodeLoss      Code = "loss"      // it destroys data, or what protects it, and needs force
	CodeInUse     Code = "in-use"    // it takes from connected hosts what they use, and needs force
	CodeNotEmpty  Code = "not-empty" // what was to be without data has some
	CodeUnsaved   Code = "unsaved"   // the target is changed, and its file is not
	CodeForbidden Code = "forbidden" // the role of who has sent it does not include it
)

// An Error is the API's answer to a request that failed. Message is the sentence that the command
// line prints. Plan is the plan of a dry run that was refused.
type Error struct {
	Code    Code    `json:"code"`
	Message string  `json:"message"`
	Plan    *Result `json:"plan,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// errorBody is the error's form in JSON.
type errorBody struct {
	Error Error `json:"error"`
}

// A plannedError is why a change would be refused, with what it would come to.
type plannedError struct {
	plan Result
	err  error
}

func (e *plannedError) Error() string { return e.err.Error() }
func (e *plannedError) Unwrap() error { return e.err }

// classify finds the code of an error.
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
	case errors.As(err, &save): // whatever is wrong with the file, it is not the request
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

// writeError answers with an error, and returns the status of that.
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
