package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// Exit codes of a program that could not be started, as shells and env have them.
const (
	notExecutable = 126
	notFound      = 127
	killed        = 128 // and the number of the signal
)

// waitDelay is how long, after the program has ended, something that it started may go on writing to a pipe.
const waitDelay = 5 * time.Second

// Run runs a program while a meter is sampled, and writes the log. Signals that it gets go to the program. code
// is the program's exit code, 128 and the number of the signal that ended it, or 126 and 127 if it could not be
// started; then err says why. An error of the log comes without one: the program has run.
func Run(argv []string, stdio [3]any, m *Meter, every time.Duration, log io.Writer) (code int, s Summary, err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, _ = stdio[0].(io.Reader)
	cmd.Stdout, _ = stdio[1].(io.Writer)
	cmd.Stderr, _ = stdio[2].(io.Writer)
	cmd.WaitDelay = waitDelay

	j := newJournal(log, m)
	begin := time.Now()
	j.sample() // what is in use before the program begins
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return cannotStart(err), j.summary, fmt.Errorf("%s: %w", argv[0], reason(err))
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			j.sample()
		case sig := <-signals:
			if !alreadyThere(sig) {
				_ = cmd.Process.Signal(sig) // it may just have ended
			}
		case <-done:
			j.sample()
			j.flush()
			j.summary.Elapsed = time.Since(begin)
			return exitCode(cmd.ProcessState), j.summary, j.err
		}
	}
}

func cannotStart(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return notFound
	}
	return notExecutable
}

// reason leaves out what is said already.
func reason(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return killed + int(w.Signal())
	}
	return s.ExitCode()
}
