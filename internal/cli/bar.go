package cli

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// bar shows how far work has come, on a terminal and only once it has taken a second.
type bar struct {
	w     io.Writer
	what  string
	begin time.Time
	bar   *progressbar.ProgressBar
	off   bool
}

func newBar(w io.Writer, quiet bool, what string) *bar {
	return &bar{w: w, what: what, begin: time.Now(), off: quiet || !isTerminal(w)}
}

// show draws the bar. A bar that cannot be drawn is no reason to stop.
func (b *bar) show(done, total int) {
	if b.off || b.bar == nil && time.Since(b.begin) < time.Second {
		return
	}
	if b.bar == nil {
		b.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription(b.what),
			progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	b.bar.ChangeMax(total)
	_ = b.bar.Set(done)
}

// bytes draws the bar of reading a file, of which the size may not be known.
func (b *bar) bytes(read, total int64) {
	if total <= 0 {
		total = -1 // then the bar only shows that something happens
	}
	b.show(int(read), int(total))
}

// clear takes the bar off the terminal, which then shows the result alone.
func (b *bar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
	b.off = true
}
