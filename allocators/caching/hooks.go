package caching

// Hooks let the follower of a recording stand in where the model cannot know, and see what it does.
// All may be nil.
type Hooks struct {
	// Acted is told of each exchange with the driver, after it happened.
	Acted func(Action)
	// Refuses decides in place of Config.Limit whether a request for so many bytes is refused without
	// asking the driver.
	Refuses func(tried int64) bool
	// Synced is called when the model waits for the device. Completions are then the caller's business;
	// without it the model completes whatever is pending.
	Synced func()
	// Collects decides, when no limit is known, whether a pass of garbage collection that would release
	// these segments is made.
	Collects func(pass []Action) bool
}

// Action is an exchange with the driver.
type Action struct {
	Kind   ActionKind
	Addr   uint64
	Size   int64
	Stream uint32
}

// ActionKind says what was exchanged.
type ActionKind uint8

// The kinds of Action, named as in PyTorch's traces.
const (
	SegmentAlloc ActionKind = iota
	SegmentFree
	SegmentMap
	SegmentUnmap
)

// SetHooks installs hooks for following a recording.
func (a *Allocator) SetHooks(h Hooks) { a.hooks = h }

func (a *Allocator) acted(kind ActionKind, addr uint64, size int64, stream uint32) {
	if a.hooks.Acted != nil {
		a.hooks.Acted(Action{kind, addr, size, stream})
	}
}
