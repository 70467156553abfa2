package simulate

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Progress is told how much of some work is done. Calls come one at a time; total may grow.
type Progress func(done, total int)

// effort adds up what a search has done, for a Progress.
type effort struct {
	progress    Progress
	mu          sync.Mutex
	done, total int
}

// each calls do with 0 to n-1, on all cores. Every call writes to places of its own, so what comes of it does
// not depend on how many cores there are; and only as many replays are in memory at a time as there are cores.
func each(n int, do func(i int)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				do(i)
			}
		})
	}
	wait.Wait()
}

// expect says that so many more steps are to come.
func (w *effort) expect(n int) { w.count(0, n) }

// step says that one is done.
func (w *effort) step() { w.count(1, 0) }

func (w *effort) count(done, more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done += done
	w.total += more
	if w.progress != nil {
		w.progress(w.done, w.total)
	}
}
