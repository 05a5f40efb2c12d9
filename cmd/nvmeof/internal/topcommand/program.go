package topcommand

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// timeout limits how long a reading may take.
const timeout = 10 * time.Second

// A program shows a screen on a terminal, and reads the target's counters for it.
type program struct {
	*screen
	ctx      context.Context
	client   *control.Client
	socket   string
	interval time.Duration
}

// A reading is the result of reading the counters, or an error.
type reading struct {
	measures *control.Measures
	err      error
	at       time.Time
}

// due signals that the next reading is due.
type due struct{}

// show shows a screen until its user quits.
func show(ctx context.Context, s *screen, interval time.Duration, in io.Reader, out io.Writer, environ []string) error {
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	if f, ok := in.(*os.File); ok {
		in = &keyboard{file: f, gone: gone}
	}
	p := &program{screen: s, ctx: ctx, client: control.NewClient(s.target), socket: s.target, interval: interval}
	defer p.client.Close()
	_, err := tea.NewProgram(p, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(environ), tea.WithoutSignalHandler()).Run()
	switch {
	case errors.Is(context.Cause(ctx), errNoTerminal), errors.Is(err, tea.ErrInterrupted):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

var errNoTerminal = errors.New("the terminal is gone")

// A keyboard is the input of a terminal, whose end ends the screen. If the terminal was not the controlling one of
// this process, as below su(1), its end sends no SIGHUP.
type keyboard struct {
	file *os.File
	gone context.CancelCauseFunc
}

func (k *keyboard) Fd() uintptr                 { return k.file.Fd() }
func (k *keyboard) Write(p []byte) (int, error) { return k.file.Write(p) }
func (k *keyboard) Close() error                { return k.file.Close() }

func (k *keyboard) Read(p []byte) (int, error) {
	n, err := k.file.Read(p)
	if n == 0 && err != nil {
		k.gone(errNoTerminal)
	}
	return n, err
}

// Init implements tea.Model.
func (p *program) Init() tea.Cmd { return p.ask }

// ask queries the target. It runs in parallel to the screen, and uses only fields that do not change.
func (p *program) ask() tea.Msg {
	ctx, cancel := context.WithTimeoutCause(p.ctx, timeout, errSilent)
	defer cancel()
	m := new(control.Measures)
	err := p.client.Do(ctx, "GET", "/v1/measures", nil, nil, m)
	if err != nil {
		err = explain(ctx, p.socket, err)
	}
	return reading{m, err, time.Now()}
}

var errSilent = errors.New("the target does not answer")

// Update implements tea.Model.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.width, p.height = msg.Width, msg.Height
		p.scroll(0)
	case tea.KeyPressMsg:
		key := msg.String()
		if key == "ctrl+z" {
			return p, tea.Suspend
		}
		if p.press(key) {
			return p, tea.Quit
		}
	case tea.PasteMsg:
		if p.typing {
			p.put(msg.Content)
		}
	case reading:
		p.screen.read(msg.measures, msg.err, msg.at)
		return p, tea.Tick(p.interval, func(time.Time) tea.Msg { return due{} })
	case due:
		return p, p.ask
	}
	return p, nil
}

// View implements tea.Model.
func (p *program) View() tea.View {
	v := tea.NewView(strings.Join(p.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "nvmeof top"
	return v
}
