package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal gives a context that ends at the first signal to end. A second one ends the program. stop gives the exit
// code of the signal, nil if there was none.
func untilSignal() (ctx context.Context, stop func() error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel()
			if n, ok := s.(syscall.Signal); ok {
				done <- exitStatus(128 + int(n))
				return
			}
			done <- exitStatus(exitFailed)
		case <-ctx.Done():
			done <- nil
		}
	}()
	return ctx, func() error {
		signal.Stop(signals)
		cancel()
		return <-done
	}
}

// endingWriter writes until a context ends.
type endingWriter struct {
	io.Writer
	ctx context.Context
}

func (w endingWriter) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Writer.Write(b)
}
