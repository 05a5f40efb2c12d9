package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var consolePage = []documented{
	{line: "nvmeof token create alice --role operate --file tokens", instead: []string{"--file ", "--file DIR/"}, wants: []string{"nvmeof-"}},
	{line: "nvmeof token list --file tokens", instead: []string{"--file ", "--file DIR/"}, wants: []string{"alice  operate"}},
	{line: "nvmeof target --listen 192.0.2.1 --nqn nqn.2026-11.org.example:disk --export mem:1GiB --allow-any-host --console 127.0.0.1:9430 --console-tokens tokens",
		instead: []string{"1GiB", "16MiB", "127.0.0.1:9430", "CONSOLE", "-tokens ", "-tokens DIR/"}, stays: "console at http://CONSOLE/\n"},
	{line: "go test -v ./cmd/nvmeof -run '^TestConsoleInBrowser$' -long", by: ".ci/run"},
	{line: `curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:9430/v1/status`, by: "cmd/nvmeof TestConsolePage"},
}

// TestConsolePage follows docs/console.md; curl is an external program.
func TestConsolePage(t *testing.T) {
	beside(t)
	at := freePort()
	r := newReader(t, "192.0.2.1", loopbackAddress(), "CONSOLE", at)
	token := strings.TrimSpace(command(t, "token", "create", "bob", "--file", filepath.Join(r.dir, "tokens")).want(t, 0).out)
	r.doDocumented(consolePage)
	get := func() int {
		q, err := http.NewRequest("GET", "http://"+at+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, a.Body)
		_ = a.Body.Close()
		return a.StatusCode
	}
	if code := get(); code != http.StatusOK {
		t.Error(code)
	}
	wantSession(t, "http://"+at, token)
}

// wantSession checks that a session is valid on every connection, since one server has all sessions.
func wantSession(t *testing.T, base, token string) {
	t.Helper()
	jar, _ := cookiejar.New(nil) // never fails
	c := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	for range 8 {
		a, err := c.PostForm(base+"/login", url.Values{"token": {token}}) // and redirects to the overview
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		if a.StatusCode != http.StatusOK || a.Request.URL.Path != "/" {
			t.Fatalf("a session leads to %s: %s", a.Request.URL, a.Status)
		}
	}
}

// TestConsoleFilesSpoilt checks that a target of a configuration serves hosts even if the file of tokens is damaged,
// as after a crash. It reports that, and admits nobody to the console until the file is valid.
func TestConsoleFilesSpoilt(t *testing.T) {
	beside(t)
	at := freePort()
	c := configure(t, testConfig+"console: {listen: \""+at+"\", tokens: DIR/tokens}\n")
	tokens := filepath.Join(c.dir, "tokens")
	if err := os.WriteFile(tokens, []byte("tok"), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, "target", "check", c.file).want(t, 0, "console: ", "no user can log in until that is fixed")
	s := startCommand(t, "target", "--config", c.file)
	s.out.await(t, "console at http://"+at)
	s.errOut.await(t, "no user can log in until that is fixed")
	command(t, "id-ctrl", "-a", c.addr, "-n", testNQN).want(t, 0)
	command(t, "events").want(t, 0, "no user can log in until that is fixed")
	ask := func(token string) int {
		q, err := http.NewRequest("GET", "http://"+at+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	if got := ask("nvmeof-token"); got != http.StatusServiceUnavailable {
		t.Errorf("answer %d", got)
	}
	if err := os.Remove(tokens); err != nil {
		t.Fatal(err)
	}
	made := command(t, "token", "create", "alice", "--role", "read", "--file", tokens)
	made.want(t, 0)
	token := strings.TrimSpace(made.out)
	for end := time.Now().Add(20 * time.Second); ask(token) != http.StatusOK; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nobody is let in with the token %q", token)
		}
	}
	s.stop()
	s.wantEnd(0)
}

// TestConsoleFlags checks that flags that would leave the console open, or without its files, prevent the start.
func TestConsoleFlags(t *testing.T) {
	target := []string{"target", "--listen", loopbackAddress(), "--nqn", testNQN, "--export", "mem:1MiB", "--allow-any-host", "--socket", "none"}
	for line, want := range map[string]string{
		"--console 127.0.0.1:9430":                                         "--console-tokens",
		"--console 0.0.0.0:9430 --console-tokens /no/tokens":               "--console-certificate",
		"--console-tokens /no/tokens":                                      "--console",
		"--console 127.0.0.1:9430 --console-tokens /no/tokens":             "console: tokens: open /no/tokens: no such file or directory: create it with nvmeof token create",
		"--console 127.0.0.1:9430 --console-tokens /t --console-key /no/k": "--console-certificate: a certificate without its key, or a key without its certificate; name both",
	} {
		code := exitUsage
		if strings.HasPrefix(want, "console: ") {
			code = exitFailed
		}
		command(t, append(target, strings.Fields(line)...)...).want(t, code, want)
	}
}
