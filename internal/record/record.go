// Package record samples the memory of the GPUs while a program runs, and writes what it sees as a log that
// trace/nvml reads.
//
// A Meter is what is sampled: NVML (nvml.go) in a program that was built with it, anything else in tests. Run
// starts the program, passes signals on to it (run.go), and writes a row for each process on each device every
// so often (log.go).
package record

import (
	"fmt"
	"time"
)

// Missing is the error where nothing can be sampled. It says what is not here and what to do about it.
type Missing struct{ What string }

func (e *Missing) Error() string { return e.What }

// Device is a GPU that is sampled.
type Device struct {
	Index int
	UUID  string
	Name  string
}

// Reading is what a device said at one moment. A figure that it did not give is negative.
type Reading struct {
	Used, Free, Total int64 // bytes
	Busy              int   // percent of the time since the reading before, roughly
	Processes         []Process
}

// Process is what a process held on a device.
type Process struct {
	PID  int
	Name string // of its program, without the folder
	Used int64  // bytes, negative if the driver does not tell
}

// Meter reads the devices.
type Meter struct {
	Driver  string // its version
	Devices []Device
	Read    func(device int) (Reading, error) // of an element of Devices
	Close   func()
}

// Only keeps one device.
func (m *Meter) Only(index int) error {
	for i, d := range m.Devices {
		if d.Index == index {
			read := m.Read
			m.Devices = m.Devices[i : i+1 : i+1]
			m.Read = func(int) (Reading, error) { return read(i) }
			return nil
		}
	}
	return &Missing{fmt.Sprintf("there is no device %d here: the driver has %d, numbered from 0", index, len(m.Devices))}
}

// Summary is what was sampled.
type Summary struct {
	Samples int // moments at which devices were read
	Failed  int // readings that failed
	Error   error
	Elapsed time.Duration
	Peak    []int64 // the most that was in use, by device, bytes; negative if it was never told
}
