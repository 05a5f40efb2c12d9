package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
)

// A login is what a store has of its user. etcd's client can log in, too, but not with another password than before, and
// without end to an etcd before 3.5. It cannot change its token either: a store connects again with each.
type login struct {
	turn     chan struct{} // has room for one call that logs in
	password string        // guarded by turn
	token    atomic.Pointer[string]
	needless atomic.Bool // etcd admits calls without one
}

// lasts reports whether etcd admits the store, as far as is known.
func (l *login) lasts() bool { return l.token.Load() != nil || l.needless.Load() }

// loginTries is the number of attempts of a transaction that is refused for its token: with one that is not valid, with
// none, and with a new one, which a member that lags behind may not know.
const loginTries = 5

// errRenewed is wrapped by the error of a call that was refused for its token, and not executed. The next attempt has
// another token.
var errRenewed = errors.New("the login has ended, and was renewed")

// renew logs in if the error of a call says that the endpoint's token is not valid: etcd forgets it after minutes without a
// call, and when the password is changed. It returns the error of the login, one that wraps errRenewed, or err.
//
// A password stays in use until etcd refuses it, so that an administrator can first write the new one to the file, and
// then tell etcd.
func (s *Store) renew(ctx context.Context, e *endpoint, err error) error {
	if s.cfg.User == "" || !ofToken(err) {
		return err
	}
	select {
	case s.login.turn <- struct{}{}:
		defer func() { <-s.login.turn }()
	case <-ctx.Done():
		return err
	}
	switch now := s.login.token.Load(); {
	case now != e.token: // another call has renewed it meanwhile
	case now != nil:
		s.login.token.Store(nil) // an etcd before 3.5 refuses a login that has an invalid token
	default:
		if why := s.logIn(ctx, e); why != nil {
			return why
		}
	}
	s.drops(e)
	return fmt.Errorf("%w: %w", errRenewed, err)
}

// logIn logs in with the last password, or with the present one if that is refused. The caller has the turn.
func (s *Store) logIn(ctx context.Context, e *endpoint) error {
	s.login.needless.Store(false)
	err := s.authenticate(ctx, e, s.login.password)
	if s.cfg.Reread == nil || !errors.Is(err, rpctypes.ErrAuthFailed) {
		return err
	}
	password, why := s.cfg.Reread(ctx)
	switch {
	case why != nil:
		return fmt.Errorf("%w: %w", err, why)
	case password == "" || password == s.login.password:
		return err
	}
	if err := s.authenticate(ctx, e, password); err != nil {
		return err
	}
	s.login.password = password
	s.cfg.Log.Info("the password of etcd has changed, and the new one is in use", zap.String("endpoint", e.name))
	return nil
}

func (s *Store) authenticate(ctx context.Context, e *endpoint, password string) error {
	r, err := e.client.Auth.Authenticate(ctx, s.cfg.User, password)
	if err == nil {
		s.login.token.Store(&r.Token)
	}
	return err
}

// ofToken reports whether a rejection is about the token of the call, or because it has none.
func ofToken(err error) bool {
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrAuthOldRevision)
}

// ofUser reports whether a rejection is about the user: the login or the rights.
func ofUser(err error) bool {
	return ofToken(err) || errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrPermissionDenied)
}
