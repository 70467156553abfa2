//go:build !linux || !cgo

package cuda

import "runtime"

// Library stands for the driver's library where it cannot be opened.
type Library struct{}

type device struct{}

// without is what is missing where there is no way to the driver.
func without() error {
	if runtime.GOOS != "linux" {
		return &Missing{"a GPU can be used on Linux only; take the recording there, or replay it without one (vramscope replay)"}
	}
	return &Missing{"this vramscope was built without cgo and cannot talk to a GPU; build one that can with: make gpu"}
}

func load(string) (*Library, error) { return nil, without() }

// Close does nothing.
func (l *Library) Close() {}

// Version is not known.
func (l *Library) Version() (int, error) { return 0, without() }

func (l *Library) lacks(int) string                         { return "" }
func (l *Library) error(string, int32) error                { return without() }
func (l *Library) count() (int, error)                      { return 0, without() }
func (l *Library) inform(int) (Info, error)                 { return Info{}, without() }
func (l *Library) open(int) (device, error)                 { return device{}, without() }
func (l *Library) close(device) error                       { return without() }
func (l *Library) streamCreate(device) (uint64, error)      { return 0, without() }
func (l *Library) streamDestroy(device, uint64) error       { return without() }
func (l *Library) poolCreate(device, int64) (uint64, error) { return 0, without() }
func (l *Library) poolDestroy(device, uint64) error         { return without() }
func (l *Library) run(device, []Op, []uint64, []uint64) int { return 0 }
