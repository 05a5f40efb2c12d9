package console

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/token"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// maxForm is the maximum size of a form's body in bytes.
const maxForm = 16 << 10

// cookieName returns the name of the session cookie. With TLS it has a prefix by which browsers accept the cookie from
// this host only, and for all of its paths (RFC 6265bis, 4.1.3.2). Cookies are shared by all ports of a host (RFC
// 6265, 8.5); the name contains the port, so that the targets of one machine do not end each other's sessions.
func (s *server) cookieName(r *http.Request) string {
	name := "nvmeof"
	if s.socket.certificate != nil {
		name = "__Host-nvmeof"
	}
	if _, text, err := net.SplitHostPort(r.Host); err == nil {
		if port, err := strconv.ParseUint(text, 10, 16); err == nil {
			name += "-" + strconv.FormatUint(port, 10)
		}
	}
	return name
}

func (s *server) setCookie(w http.ResponseWriter, r *http.Request, id string, age int) {
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(r), Value: id, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: s.socket.certificate != nil})
}

// sessionID returns the session named by a request; empty: none.
func (s *server) sessionID(r *http.Request) string {
	c, err := r.Cookie(s.cookieName(r))
	if err != nil {
		return ""
	}
	return c.Value
}

// whose returns the token of a request's session. It returns false if the token was revoked.
func (s *server) whose(r *http.Request) (token.Entry, bool) {
	id := s.sessionID(r)
	hash, ok := s.sessions.use(id, s.now())
	if !ok {
		return token.Entry{}, false
	}
	e, ok, err := s.socket.tokens.Find(hash)
	if !ok && err == nil {
		s.sessions.end(id)
	}
	return e, ok
}

// signedIn calls next for requests with a session, and redirects others to the login page.
func (s *server) signedIn(next func(http.ResponseWriter, *http.Request, control.Caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e, ok := s.whose(r)
		switch {
		case ok:
			next(w, r, caller(e, r))
		case r.Header.Get("HX-Request") != "" || r.URL.Path == "/live":
			w.Header().Set("HX-Redirect", "/login")
			refuse(w, http.StatusUnauthorized, "the session has ended")
		default:
			http.Redirect(w, r, "/login", http.StatusSeeOther)
		}
	}
}

func (s *server) showLogin(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.whose(r); ok {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	s.render(w, http.StatusOK, "login", page{Title: "Sign in"})
}

// login starts a session. It ends the browser's current session, so that no user continues a session that somebody
// else started there.
func (s *server) login(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.render(w, http.StatusBadRequest, "login", page{Title: "Sign in", Wrong: "the form is too long or incomplete"})
		return
	}
	hash := token.HashOf(strings.TrimSpace(r.PostForm.Get("token")))
	e, ok, err := s.socket.tokens.Find(hash)
	if !ok {
		code, why := s.refusal(addressOf(r), err)
		s.render(w, code, "login", page{Title: "Sign in", Wrong: why})
		return
	}
	s.sessions.end(s.sessionID(r))
	s.setCookie(w, r, s.sessions.begin(e.Hash, s.now()), 0)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	s.sessions.end(s.sessionID(r))
	s.setCookie(w, r, "", -1)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
