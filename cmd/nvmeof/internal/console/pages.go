package console

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

//go:embed static pages
var files embed.FS

// A page holds what all pages have in common.
type page struct {
	Title   string
	Path    string // of the entry in the menu
	Version string
	Who     control.Caller
	Operate bool // whether the caller may change namespaces and hosts
	Done    string
	Wrong   string
	View    any // the data of this page
}

// pageNames returns the names of the templates, each of which includes the layout.
func pageNames() []string {
	return []string{"login", "overview", "subsystem", "namespace", "connections", "events", "health", "missing"}
}

func parsePages() map[string]*template.Template {
	out := map[string]*template.Template{}
	for _, name := range pageNames() {
		out[name] = template.Must(template.New("layout.html").Funcs(words()).ParseFS(files, "pages/layout.html", "pages/"+name+".html"))
	}
	return out
}

// servePages registers the pages.
func (s *server) servePages(mux *http.ServeMux) {
	static, _ := fs.Sub(files, "static") // the directory exists
	assets := http.StripPrefix("/static/", http.FileServerFS(static))
	mux.HandleFunc("GET /static/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache") // a new version has other files
		assets.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /login", s.showLogin)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("GET /{$}", s.signedIn(s.overview))
	mux.HandleFunc("GET /subsystem", s.signedIn(s.subsystem))
	mux.HandleFunc("GET /namespace", s.signedIn(s.namespace))
	mux.HandleFunc("GET /connections", s.signedIn(s.connections))
	mux.HandleFunc("GET /events", s.signedIn(s.events))
	mux.HandleFunc("GET /health", s.signedIn(s.health))
	mux.HandleFunc("GET /live", s.signedIn(s.live))
	mux.HandleFunc("POST /do", s.signedIn(s.do))
	mux.HandleFunc("/", s.signedIn(func(w http.ResponseWriter, r *http.Request, who control.Caller) {
		s.missing(w, r, who, "no such page")
	}))
}

// show sends a page, with the result of the last action.
func (s *server) show(w http.ResponseWriter, r *http.Request, who control.Caller, name, title string, view any) {
	var done, wrong string
	if r.Header.Get("HX-Request") == "" { // a part that is refreshed does not show the result
		done, wrong = s.sessions.take(s.sessionID(r))
	}
	s.render(w, http.StatusOK, name, page{Title: title, Path: "/" + name, Who: who, Operate: who.Role.May(control.RoleOperate), Done: done, Wrong: wrong, View: view})
}

func (s *server) missing(w http.ResponseWriter, r *http.Request, who control.Caller, why string) {
	done, wrong := s.sessions.take(s.sessionID(r))
	if wrong == "" {
		wrong = why
	}
	s.render(w, http.StatusNotFound, "missing", page{Title: "Not found", Who: who, Done: done, Wrong: wrong})
}

// render renders the whole page before it sends any of it.
func (s *server) render(w http.ResponseWriter, code int, name string, p page) {
	p.Version = s.cfg.Version
	var b bytes.Buffer
	if err := s.pages[name].Execute(&b, p); err != nil {
		s.cfg.Log.Error("console: page", zap.String("page", name), zap.Error(err))
		refuse(w, http.StatusInternalServerError, "the page cannot be created; the target's log has the reason")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes())
}
