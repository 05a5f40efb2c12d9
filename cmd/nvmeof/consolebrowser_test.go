package main

import (
	"context"
	"flag"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var pictures = flag.String("pictures", "", "folder for pictures of the console (default: none)")

// A browser is a headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context
	at  string // URL of the console

	said iter.Seq2[chromedp.ConsoleMessage, error]
}

func startBrowser(t *testing.T, at string) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("chromium, of Debian's package of that name, is not installed")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.Env("HOME="+t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	said := chromedp.Console(ctx)
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(cancel)
	return &browser{t, ctx, at, said}
}

// wantQuiet checks that pages caused no errors, such as violations of their content security policy.
func (b *browser) wantQuiet() {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`console.log("the end")`))
	for m, err := range b.said {
		if err != nil || m.Text == "the end" {
			return
		}
		if m.IsException() || m.Type == "error" || m.Type == "warning" {
			b.t.Errorf("a page: %s %s (%s)", m.Type, m.Text, m.URL)
		}
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, action := range actions {
		err := chromedp.Do(b.ctx, action)
		// chromedp may look for the element to be clicked in the previous page, which has just gone.
		for tries := 0; err != nil && tries < 5 && strings.Contains(err.Error(), "Could not find node with given id"); tries++ {
			time.Sleep(100 * time.Millisecond)
			err = chromedp.Do(b.ctx, action)
		}
		if err != nil {
			text, _ := chromedp.Run(b.ctx, chromedp.Text("body"))
			b.t.Fatalf("%v, on\n%s", err, text)
		}
	}
}

// wait waits until the page contains a text.
func (b *browser) wait(text string) {
	b.t.Helper()
	b.until("document.body.innerText.includes(" + quoteJS(text) + ")")
}

// until waits until an expression is true on the current page.
func (b *browser) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		if is {
			return
		}
		if time.Now().After(end) {
			text, _ := chromedp.Run(b.ctx, chromedp.Text("body"))
			b.t.Fatalf("it never came to %s: %v, on\n%s", expression, err, text)
		}
	}
}

func quoteJS(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// picture takes a screenshot, if there is a directory for it.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *pictures == "" {
		return
	}
	b.do(chromedp.Sleep(300 * time.Millisecond))
	image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(*pictures, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), image, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// as sets the size of the page, and a light or dark scheme.
func (b *browser) as(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return err
		}))
}

// fits checks that the page is not wider than the screen.
func (b *browser) fits(path string) {
	b.t.Helper()
	over, err := chromedp.Run(b.ctx, chromedp.Evaluate[int]("document.documentElement.scrollWidth - window.innerWidth"))
	if err != nil || over > 0 {
		b.t.Errorf("%s is %d wider than the screen, %v", path, over, err)
	}
}

// TestConsoleInBrowser signs in, and adds, views, pauses and removes a namespace in Chromium, while a host has a load
// on another.
func TestConsoleInBrowser(t *testing.T) {
	if !*long {
		t.Skip("it starts a browser: run it with -long")
	}
	beside(t)
	dir := t.TempDir()
	tokens, disk := filepath.Join(dir, "tokens"), filepath.Join(dir, "disk.img")
	token := strings.TrimSpace(command(t, "token", "create", "alice", "--role", "operate", "--file", tokens).want(t, 0).out)
	at := freePort()
	s := startTarget(t, "--export", disk+",size=64m", "--allow-any-host", "--console", at, "--console-tokens", tokens)
	b := startBrowser(t, "http://"+at)
	a := startAttach(t, s)
	load := a.load(t, "1")
	b.as(1200, 800, "light")
	b.do(chromedp.Navigate(b.at + "/"))
	b.wait("Sign in")
	b.picture("login")
	b.do(chromedp.SendKeys(`input[name=token]`, token+"\r"))
	b.wait("Overview")
	b.picture("overview")
	b.do(chromedp.Navigate(b.at+"/subsystem?nqn="+testNQN), chromedp.Click("#add summary"),
		chromedp.SetValue(`#add select[name=kind]`, "memory"), chromedp.SendKeys(`#add input[name=size]`, "16MiB"))
	b.picture("add")
	b.do(chromedp.Click("#add button"))
	b.wait("Done: namespace 2 is added.")
	b.picture("subsystem")
	b.do(chromedp.Click(`a[href$="nsid=2"]`))
	b.wait("Namespace 2")
	b.do(chromedp.Click(`//button[text()="Pause"]`))
	b.wait("Done: commands to namespace 2 are held")
	b.do(chromedp.Click(`//summary[text()="Remove…"]`))
	b.picture("remove")
	b.do(chromedp.Click(`//button[text()="Remove namespace 2"]`))
	b.wait("Done: namespace 2 is removed.")

	b.do(chromedp.Navigate(b.at + "/namespace?nsid=1&nqn=" + testNQN))
	b.until(`Number(document.querySelector('[data-show="iops"]').textContent.replace("M", "")) > 0 && document.querySelector('[data-show="p99"]').textContent !== "–"`)
	if *pictures != "" {
		b.do(chromedp.Sleep(15 * time.Second)) // so that there is something to see
	}
	b.picture("console")
	for _, look := range []struct {
		name   string
		width  int64
		scheme string
	}{{"light", 1200, "light"}, {"dark", 1200, "dark"}, {"phone", 390, "light"}, {"phone-dark", 390, "dark"}} {
		b.as(look.width, 800, look.scheme)
		for name, path := range map[string]string{"overview": "/", "subsystem": "/subsystem?nqn=" + testNQN, "namespace": "/namespace?nsid=1&nqn=" + testNQN,
			"connections": "/connections", "events": "/events", "health": "/health"} {
			b.do(chromedp.Navigate(b.at+path), chromedp.WaitVisible("main h1"))
			b.fits(look.name + " " + path)
			if *pictures != "" && name == "namespace" {
				b.do(chromedp.Sleep(5 * time.Second))
			}
			b.picture(look.name + "-" + name)
		}
	}
	b.do(chromedp.Navigate(b.at+"/events"), chromedp.SendKeys(`input[name=q]`, "config"))
	b.until(`!document.querySelector("#found").innerText.includes("listener is open")`)
	b.do(chromedp.Click(".who button"))
	b.wait("Sign in")
	load.end(t)
	b.wantQuiet()
}
