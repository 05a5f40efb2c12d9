package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// An action is a call of the API made on behalf of a form, and the page that follows it.
type action struct {
	method string
	path   []string // below /v1
	body   map[string]any
	edits  bool   // the change can be saved
	done   string // message after success
	next   string
}

// do carries out the action of a form on behalf of its sender.
func (s *server) do(w http.ResponseWriter, r *http.Request, who control.Caller) {
	if err := r.ParseForm(); err != nil {
		s.missing(w, r, who, "the form is too long or incomplete; nothing was changed")
		return
	}
	a, ok := actionOf(r.PostForm)
	if !ok {
		s.missing(w, r, who, "no such action; nothing was changed")
		return
	}
	done, wrong := a.done, s.call(r, who, &a)
	if wrong != "" {
		done = ""
		a.next = back(r.PostForm)
	}
	s.sessions.say(s.sessionID(r), done, wrong)
	http.Redirect(w, r, a.next, http.StatusSeeOther)
}

// back returns the page to which a form belongs.
func back(f url.Values) string {
	q := url.Values{"nqn": {f.Get("nqn")}}
	switch f.Get("action") {
	case "resize", "pause", "resume", "protect", "unprotect", "remove-namespace", "clear-fault":
		q.Set("nsid", f.Get("nsid"))
		return "/namespace?" + q.Encode()
	case "disconnect":
		return "/connections"
	}
	return "/subsystem?" + q.Encode()
}

// actionOf returns the action that a form requests.
func actionOf(f url.Values) (a action, ok bool) {
	nqn, nsid, host := f.Get("nqn"), f.Get("nsid"), f.Get("host")
	space := []string{"subsystems", nqn, "namespaces", nsid}
	a = action{method: http.MethodPost, next: back(f), path: space}
	change := func(body map[string]any, done string) {
		a.method, a.body, a.edits, a.done = http.MethodPatch, body, true, done
	}
	shown := "namespace " + nvmeof.Visible(nsid)
	switch f.Get("action") {
	case "add-namespace":
		a.path, a.body, a.edits, a.done = []string{"subsystems", nqn, "namespaces"}, newNamespace(f), true, shown+" is added"
	case "resize":
		change(map[string]any{"file": map[string]any{"size": f.Get("size")}}, shown+" was resized")
	case "protect":
		change(map[string]any{"read-only": true}, shown+" is read-only")
	case "unprotect":
		change(map[string]any{"read-only": false}, shown+" is writable")
	case "pause":
		a.path, a.body, a.done = append(space, "pause"), map[string]any{"limit": f.Get("limit")}, "commands to "+shown+" are held until it is resumed, for "+nvmeof.Visible(f.Get("limit"))+" at most"
	case "resume":
		a.path, a.done = append(space, "resume"), "commands to "+shown+" are executed again"
	case "clear-fault":
		a.path, a.done = append(space, "clear-fault"), shown+" takes writes again"
	case "remove-namespace":
		a.method, a.edits, a.done, a.next = http.MethodDelete, true, shown+" is removed", "/subsystem?"+url.Values{"nqn": {nqn}}.Encode()
	case "allow-host":
		a.path, a.body, a.edits, a.done = []string{"subsystems", nqn, "hosts"}, map[string]any{"nqn": host, "access": f.Get("access")}, true, "host "+nvmeof.Visible(host)+" may connect"
	case "remove-host":
		a.method, a.path, a.edits, a.done = http.MethodDelete, []string{"subsystems", nqn, "hosts", host}, true, "host "+nvmeof.Visible(host)+" may no longer connect"
	case "disconnect":
		a.method, a.path, a.done = http.MethodDelete, []string{"subsystems", nqn, "controllers", f.Get("id")}, "the host is disconnected, and may connect again"
	default:
		return a, false
	}
	if f.Get("save") == "" {
		return a, true
	}
	a.done += "; the change is saved"
	return a, true
}

// newNamespace returns the request body that adds a namespace.
func newNamespace(f url.Values) map[string]any {
	var nsid any = f.Get("nsid")
	if n, err := strconv.Atoi(f.Get("nsid")); err == nil {
		nsid = n
	}
	body := map[string]any{"nsid": nsid}
	of := map[string]any{}
	if size := strings.TrimSpace(f.Get("size")); size != "" && f.Get("kind") != "block" {
		of["size"] = size
	}
	if path := strings.TrimSpace(f.Get("path")); f.Get("kind") != "memory" {
		of["path"] = path
	}
	switch kind := f.Get("kind"); kind {
	case "file", "block", "memory":
		body[kind] = of
	}
	if f.Get("read-only") != "" {
		body["read-only"] = true
	}
	return body
}

// call calls the API and returns its error message.
func (s *server) call(r *http.Request, who control.Caller, a *action) (wrong string) {
	var body []byte
	if a.body != nil {
		var err error
		if body, err = json.Marshal(a.body); err != nil {
			return err.Error()
		}
	}
	path := control.Path(a.path...)
	if a.edits && r.PostForm.Get("save") != "" {
		path += "?save=true"
	}
	q, err := http.NewRequestWithContext(r.Context(), a.method, path, bytes.NewReader(body))
	if err != nil {
		return "invalid request path: " + nvmeof.Visible(err.Error())
	}
	q.RemoteAddr = r.RemoteAddr
	w := &answer{header: http.Header{}, code: http.StatusOK}
	s.api.ServeHTTP(w, withCaller(q, func() control.Caller { return who }))
	if w.code == http.StatusOK {
		return ""
	}
	var e struct{ Error control.Error }
	if json.Unmarshal(w.body.Bytes(), &e) != nil || e.Error.Message == "" {
		return "the API returned " + http.StatusText(w.code)
	}
	return e.Error.Message
}

// An answer records a response of the API.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(code int) { a.code = code }

// Write implements [http.ResponseWriter].
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
